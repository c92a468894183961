"""A small table from which job_submit.lua gives a new job its class default at submission.

Without it an interactive job has no factor of ours until the next cycle. The table is good for some
cycles only: slurmctld's script ignores an old one, so that nothing stands for a daemon that died.
Jobs that got their factor from it are known to nobody until the next cycle has seen them. While the
file holds anything, be it that no job is to heed it any more, a release therefore looks at every
waiting job.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, SchedulerFacts
from slurm_rl_plugin.domain.job_class import JobClassRule
from slurm_rl_plugin.hook.class_defaults.table import (
    empty_table,
    may_have_given,
    void_table,
    write_table,
)
from slurm_rl_plugin.hook.order.order_changes import LARGEST_FACTOR, SPACING
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.units import IntArray

logger = logging.getLogger(__name__)

_LEVER = "SiteFactor"
_NOTHING = ApplyReport(applied=0, rejected={})
#: Of a rule, what the script cannot know of a job that is just being submitted.
_UNTOLD = ("name", "account", "user")
#: Of jobs that the script cannot tell the class of: it gives them nothing.
_UNKNOWN = "unknown"
#: Names that would break a line of the table.
_PLAIN = re.compile(r"[^\s,=]+")


@dataclass(slots=True, kw_only=True)
class ClassDefaults:
    """Writes the table and voids it.

    Attributes:
        path: of the table; None writes none.
        rules: of the job classes, the first match decides.
        life: seconds for which the table is good.
        more: further lines, such as the QOS of batch jobs.
    """

    path: Path | None = None
    rules: Sequence[JobClassRule] = ()
    life: float = 120.0
    more: Mapping[str, str] | None = None
    _quick_first: bool = False
    _complained: str = ""

    @property
    def stands(self) -> bool:
        """Whether waiting jobs may have a factor that no cycle knows of."""
        return factors_may_stand(self.path)

    def follow(
        self, plan: QueuePlan, facts: SchedulerFacts, influence: float, system: BatchSystem
    ) -> None:
        """Write what a job submitted now is to get, or take all back where we give no order.

        Args:
            plan: of the cycle that has just been applied.
            facts: the table gives a SiteFactor, and nothing where that is not the lever.
            influence: priority points that the best place is worth; inf where our order wins.
            system: where all is taken back.

        Raises:
            BatchSystemUnavailable: no answer in time.
        """
        if self.path is None:
            return
        if plan.releases or facts.lever != _LEVER:
            self.take_back(system)
            return
        self._quick_first = _puts_quick_first(plan, self._quick_first)
        factor = interactive_factor(plan) if self._quick_first else 0
        lines = self._lines(plan, min(factor, influence))
        try:
            write_table(self.path, list(lines))
        except OSError as error:  # what is in place is soon too old to be heeded, if it is at all
            self._complain(str(error.strerror))
        else:
            self._complained = ""

    def withdraw(self) -> None:
        """Void the table, but remember that jobs may have factors of it."""
        if self.path is not None:
            mark_given(self.path)

    def take_back(self, system: BatchSystem, before: ApplyReport = _NOTHING) -> ApplyReport:
        """Void the table and take back every factor that it may have given.

        Args:
            system: whose waiting jobs are looked at.
            before: of the factors that were known; joined with what was found on top.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
        """
        if self.path is None or not self.stands:
            return before
        self.withdraw()
        report = system.release(None)
        if not report.later:
            forget_given(self.path)
        return ApplyReport(
            applied=before.applied + report.applied,
            rejected=before.rejected | report.rejected,
            later=before.later | report.later,
        )

    def _complain(self, why: str) -> None:
        if why != self._complained:  # the same every cycle would fill the log
            self._complained = why
            logger.error("class_defaults=unwritable path=%s reason=%s", self.path, why)

    def _lines(self, plan: QueuePlan, factor: float) -> Iterator[str]:
        now = plan.snapshot.now
        yield f"from {math.floor(now)}"
        yield f"until {math.ceil(now + self.life)}"
        yield f"factor {math.floor(factor)}"
        for key, value in (self.more or {}).items():
            yield f"{key} {value}"
        for rule in told_rules(self.rules, plan.snapshot.partitions, plan.snapshot.qos):
            yield f"rule {rule}"
        yield "end"


def mark_given(path: Path) -> None:
    """Void the table, but remember that jobs may have factors of it.

    Where that cannot be, the table is soon too old; no factor of ours stays for it.
    """
    try:
        void_table(path)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.error("class_defaults=left path=%s reason=%s", path, error.strerror)


def forget_given(path: Path) -> None:
    """Every waiting job was looked at."""
    try:
        empty_table(path)
    except FileNotFoundError:
        return
    except OSError as error:  # they are looked at once more
        logger.error("class_defaults=marked path=%s reason=%s", path, error.strerror)


def factors_may_stand(path: Path | None) -> bool:
    """Whether a table stands or stood whose factors were not all taken back."""
    return path is not None and may_have_given(path)


def _classes(plan: QueuePlan) -> tuple[IntArray, IntArray]:
    """Places in the order of its interactive and of its other jobs."""
    quick = plan.snapshot.pending.jobs.interactive[plan.order]
    return np.flatnonzero(quick), np.flatnonzero(~quick)


def _puts_quick_first(plan: QueuePlan, before: bool) -> bool:
    """Whether every interactive job goes before every other; as before where it cannot be seen."""
    if plan.fallback_reason is not None:
        return False
    quick, slow = _classes(plan)
    if plan.limit.processors is not None:
        return True  # the rail of the reserve sees to it
    if len(quick) == 0 or len(slow) == 0:
        return before
    return bool(quick.max() < slow.min())


def interactive_factor(plan: QueuePlan) -> int:
    """What puts a new interactive job before all batch jobs, behind the interactive ones.

    A new job's own priority is not known; that of the lowest waiting job is taken for it, since a
    new one has waited least. 0 where no batch job has to be outranked.
    """
    pending, order = plan.snapshot.pending, np.asarray(plan.order, dtype=np.int64)
    quick, slow = _classes(plan)
    if len(slow) == 0:
        return 0
    priority = plan.priority_after
    above = int(priority[order[slow]].max())
    target = above + SPACING
    if len(quick):
        target = max(min(target, int(priority[order[quick]].min()) - 1), above + 1)
    own = int(pending.native_priority[order].min())
    return int(np.clip(target - own, 0, LARGEST_FACTOR))


def told_rules(
    rules: Iterable[JobClassRule], partitions: Sequence[str], qos: Sequence[str]
) -> Iterator[str]:
    """The rules in words of the script, as far as it can tell them.

    Patterns become the names that the cluster is known to have. A rule by job name, account or user
    cannot be told: an interactive one is left out, so that its jobs wait for the next cycle, and no
    job behind it is known to be batch; a batch one ends the list, since the rules behind it might
    call its jobs interactive. Then nothing is known of the jobs that no rule before it finds.
    """
    left_out = False
    for rule in rules:
        if any(getattr(rule, name) is not None for name in _UNTOLD):
            left_out = True
            if rule.job_class == "batch":
                break
            continue
        words = [_UNKNOWN if left_out and rule.job_class == "batch" else rule.job_class]
        for key, pattern, names in (
            ("partition", rule.partition, partitions),
            ("qos", rule.qos, qos),
        ):
            if pattern is not None:
                words.append(f"{key}={','.join(_names_like(pattern, names)) or '='}")
        if rule.time_limit_at_most is not None:
            words.append(f"time_limit_at_most={rule.time_limit_at_most:.0f}")
        if rule.no_batch_script is not None:
            words.append(f"no_batch_script={'yes' if rule.no_batch_script else 'no'}")
        yield " ".join(words)
    if left_out:
        yield _UNKNOWN


def _names_like(pattern: str, names: Sequence[str]) -> list[str]:
    """Known names that a pattern finds, and the one that it spells out."""
    known = {*names, *re.findall(r"^\^([\w.-]+)\$$", pattern)}
    return sorted(n for n in known if _PLAIN.fullmatch(n) and re.search(pattern, n))
