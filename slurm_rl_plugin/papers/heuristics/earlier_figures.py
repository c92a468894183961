"""What an earlier measurement with other code gave for the heuristics, as it was printed.

It counted 5,500 of 6,000 jobs of a synthetic log and jobs 500 to 8,999 of a segment of LPC-EGEE.
Standard deviations and longest waits are those of one seed, averaged over the seeds: over the jobs
of all seeds together FIFO's interactive deviation at p = .2 is 2,919 s, not 2,043 s. The FIFO/SJF
ratios are medians of the seeds' ratios: the ratio of the means is 3.0, not 2.7. FIFO's row is that
of seeds 0 to 99; the row with one processor held fits seeds 0 to 39.
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

_ALL = (
    *("mean wait", "interactive mean wait", "interactive std of waits"),
    *("interactive longest wait", "batch mean wait", "batch longest wait"),
    *("interactive within 120 s", "U", "J"),
)
_MEANS = ("mean wait", "interactive mean wait", "batch mean wait", "J")

#: Policy -> column -> printed.
Table = dict[str, dict[str, str]]


def _table(columns: tuple[str, ...], rows: dict[str, str]) -> Table:
    return {name: dict(zip(columns, row.split(), strict=True)) for name, row in rows.items()}


#: Interactive fraction p of the 2008 load -> what was printed.
GRID_OF_2008: dict[float, Table] = {
    0.2: _table(
        _ALL,
        {
            FIFO: "2676 2689 2043 7818 2673 7.9k .215 .746 .862",
            "EDF": "1270 240 375 2027 1527 27k .725 .913 .946",
            "interactive first": "2206 79 94 645 2735 8.1k .760 .859 .919",
            "SJF EST": "2206 79 94 645 2735 8.1k .760 .859 .919",
            SJF: "892 73 93 710 1096 120k .789 .945 .962",
            "utility-greedy oracle": "993 425 5561 118k 1134 143k .793 .945 .962",
            "utility-greedy EST": "2493 308 4587 112k 3037 217k .782 .929 .954",
            "SJF oracle, 1 held": "1276 13 46 488 1592 177k .963 .969 .974",
            "SJF oracle, 2 held": "1985 2 17 289 2482 310k .995 .970 .975",
        },
    ),
    0.4: {
        FIFO: {"mean wait": "1169", "J": ".815"},
        **_table(_MEANS, {SJF: "390 41 622 .966", "interactive first": "796 45 1294 .940"}),
        "SJF oracle, 2 held": {"J": ".9765"},
    },
    0.5: {
        FIFO: {"mean wait": "862", "J": ".794"},
        **_table(_MEANS, {SJF: "287 35 539 .967", "interactive first": "532 40 1022 .948"}),
        "SJF oracle, 2 held": {"J": ".9763"},
    },
}

#: Mean wait under FIFO over that under SJF, the median of the seeds.
RATIOS: dict[float, dict[str, str]] = {
    0.2: {"mean wait": "2.7", "interactive mean wait": "29", "batch mean wait": "2.2"},
    0.4: {"mean wait": "2.7", "interactive mean wait": "23", "batch mean wait": "1.7"},
    0.5: {"mean wait": "2.7", "interactive mean wait": "20", "batch mean wait": "1.5"},
}
#: Quantile over the seeds -> that of the ratio of all jobs' mean waits.
RATIO_QUANTILES = {0.05: "2.0", 0.95: "3.7"}

COLUMNS_OF_2011 = ("R", "interactive within 120 s")
_POLICIES_OF_2011 = (FIFO, "interactive first", SJF, "min(run + wait) EST", "SJF oracle, 4 held")


def _of_2011(*rows: str) -> Table:
    return _table(COLUMNS_OF_2011, dict(zip(_POLICIES_OF_2011, rows, strict=True)))


#: The EGEE-like generator.
EGEE_LIKE = _of_2011(".768 .78", ".791 .82", ".855 .90", ".833 .87", ".896 .991")
#: Number of the segment -> what was printed; nothing for segment 14.
SEGMENTS: dict[int, Table] = {
    14: {name: {} for name in _POLICIES_OF_2011},
    17: _of_2011(".29 .15", ".38 .41", ".56 .65", ".51 .62", ".87 .95"),
    18: _of_2011(".83 .82", ".85 .90", ".89 .93", ".89 .93", ".98 .999"),
    19: _of_2011(".64 .72", ".67 .82", ".79 .84", ".78 .85", ".91 .999"),
}
