"""What an earlier measurement with other code gave for the heuristics, as it was printed.

It counted 5,500 of 6,000 jobs of a synthetic log and jobs 500 to 8,999 of a segment of LPC-EGEE.
Standard deviations and longest waits are those of one seed, averaged over the seeds: pooled over
all jobs, FIFO's deviation at p = .2 would be about 2,750 s and not 2,043 s. The FIFO/SJF ratios are
medians of the seeds' ratios: the ratio of the means is 3.0 and not 2.7.
"""

from __future__ import annotations

from typing import NamedTuple


class Heuristic(NamedTuple):
    """A rule with what it knows and what it holds back.

    Attributes:
        rule: as `evaluate` calls it.
        estimates: "oracle" or "class-median".
        reserve: processors kept free of batch work.
    """

    rule: str
    estimates: str = "oracle"
    reserve: int = 0


FIFO, SJF = "FIFO", "SJF oracle"
HEURISTICS = {
    FIFO: Heuristic("fifo"),
    "EDF": Heuristic("edf"),
    "interactive first": Heuristic("interactive-first"),
    "SJF EST": Heuristic("sjf", "class-median"),
    SJF: Heuristic("sjf"),
    "utility-greedy oracle": Heuristic("utility-greedy"),
    "utility-greedy EST": Heuristic("utility-greedy", "class-median"),
    "min(run + wait) EST": Heuristic("min-run-wait", "class-median"),
    "SJF oracle, 1 held": Heuristic("sjf", reserve=1),
    "SJF oracle, 2 held": Heuristic("sjf", reserve=2),
    "SJF oracle, 4 held": Heuristic("sjf", reserve=4),
}

#: Column -> where `summarise` puts it; the last one is added by `heuristics.measures_of`.
COLUMNS = {
    "mean wait": "mean_wait",
    "interactive mean wait": "classes interactive mean_wait",
    "interactive std of waits": "classes interactive std_wait",
    "interactive longest wait": "classes interactive max_wait",
    "batch mean wait": "classes batch mean_wait",
    "batch longest wait": "classes batch max_wait",
    "interactive within 120 s": "classes interactive within_120s",
    "U": "time_utility",
    "R": "responsiveness",
    "J": "objective",
    "J with nominal shares": "objective_of_nominal_shares",
}
_ALL = (
    *("mean wait", "interactive mean wait", "interactive std of waits"),
    *("interactive longest wait", "batch mean wait", "batch longest wait"),
    *("interactive within 120 s", "U", "J"),
)
_MEANS = ("mean wait", "interactive mean wait", "batch mean wait", "J")

#: Policy -> column -> printed; "-" is not printed.
Table = dict[str, dict[str, str]]


def _table(columns: tuple[str, ...], **rows: str) -> Table:
    names = {name.replace(" ", "_").replace(",", ""): name for name in HEURISTICS}
    return {
        names[key]: {
            column: text
            for column, text in zip(columns, row.split(), strict=True)
            if text != "-"
        }
        for key, row in rows.items()
    }
