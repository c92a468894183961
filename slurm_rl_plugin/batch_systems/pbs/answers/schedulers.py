"""What `qmgr -c "list sched"` says of each scheduler: a formula of its own, and its threshold.

Both are attributes of the scheduler, which `qstat -B` does not show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_score

LIST_SCHEDULERS = ("qmgr", "-c", "list sched")


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsScheduler:
    """One scheduler of the server.

    Attributes:
        name: `default` for the first.
        formula: by which it sorts where the server has none; "" for none.
        threshold: at or below which no job runs; None where unset.
    """

    name: str
    formula: str
    threshold: float | None

    def harm(self, ours: str) -> str | None:
        """Why a score would do nothing, or worse; None where it works.

        Args:
            ours: the server's formula.
        """
        if self.threshold is not None:
            return (
                f"scheduler {self.name} has a job_sort_formula_threshold, and a job at or below it "
                f"never runs: qmgr -c 'unset sched {self.name} job_sort_formula_threshold'"
            )
        if self.formula == ours != "":
            return (
                f"scheduler {self.name} has the server's job_sort_formula as its own, which the "
                f"dead-man hook cannot take back: qmgr -c 'unset sched {self.name} "
                "job_sort_formula'"
            )
        if self.formula:
            return (
                f"scheduler {self.name} has a job_sort_formula of its own that is not the "
                "server's: as root run what `slurm-rl pbs-setup --print` prints"
            )
        return None


def read_schedulers(read: Callable[[Sequence[str]], str]) -> tuple[PbsScheduler, ...]:
    """Every scheduler; raises what `read` does.

    Args:
        read: gives what a command prints.
    """
    return parse_schedulers(read(LIST_SCHEDULERS))


def parse_schedulers(words: str) -> tuple[PbsScheduler, ...]:
    """Every scheduler of an answer; qmgr goes on with a long value in a line that is indented."""
    parts = re.split(r"^Sched (\S+)\s*$", re.sub(r"\n\t+", "", words), flags=re.MULTILINE)
    return tuple(_scheduler(*pair) for pair in zip(parts[1::2], parts[2::2], strict=True))


def harm_of(schedulers: Iterable[PbsScheduler], ours: str) -> str | None:
    """What the first says that would do harm; see `PbsScheduler.harm`."""
    found = (each.harm(ours) for each in schedulers)
    return next((harm for harm in found if harm is not None), None)


def _scheduler(name: str, lines: str) -> PbsScheduler:
    told = dict(re.findall(r"^\s+(\w+) = (.*?)\s*$", lines, re.MULTILINE))
    threshold = parse_score(told.get("job_sort_formula_threshold"))
    return PbsScheduler(name=name, formula=told.get("job_sort_formula", ""), threshold=threshold)
