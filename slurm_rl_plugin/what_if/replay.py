"""The jobs of a log under each variant of a cluster, found again by their place in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.checkpoint import Checkpoint, digest_of
from slurm_rl_plugin.learning.evaluation.paired import schedule_of, starts_under
from slurm_rl_plugin.learning.evaluation.recorded_replay import UNCOUNTED
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs
from slurm_rl_plugin.what_if.variant import ClusterVariant, admitted

#: Puts jobs on a machine.
Placed = Callable[[JobLog, Machine], PreparedLog]
#: Fewer jobs say nothing.
FEWEST_JOBS = 20


@dataclass(frozen=True, kw_only=True)
class ReplayedVariant:
    """The jobs of a log under one variant."""

    variant: ClusterVariant
    #: the jobs that it can run; `log.job_id` is their place in the log that was read
    prepared: PreparedLog
    sentences: tuple[str, ...]  #: what of the variant is not simulated, and which jobs differ
    settings: SimulationSettings
    start: FloatArray = field(default_factory=lambda: np.empty(0))  #: of none before it is replayed

    @property
    def digest(self) -> str:
        """Of everything that shapes the starts."""
        policy = self.variant.policy
        return digest_of(self.prepared, self.settings, policy.name, policy.network)

    def starts(self) -> FloatArray:
        """When each job starts, seconds, shape [n]."""
        workload = self.prepared.workload(RequestedLimit())
        return starts_under(self.variant.policy, self.prepared, workload, self.settings)

    @cached_property
    def schedule(self) -> ScheduledJobs:
        """The starts that the jobs got."""
        return schedule_of(self.prepared, self.start, self.settings)

    @cached_property
    def measures(self) -> JobMeasures:
        """Of each job."""
        return JobMeasures.of(self.schedule)

    def at(self, rows: IntArray) -> IntArray:
        """Places in `prepared` of jobs by their places in the log; all of them are there."""
        rank = np.argsort(self.prepared.log.job_id, kind="stable")
        return rank[np.searchsorted(self.prepared.log.job_id, rows, sorter=rank)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPair:
    """The same jobs on the cluster as it is and under one variant.

    `counted` are places in the log, ascending, of the jobs that are measured: those that both run,
    without those at both ends.
    """

    base: ReplayedVariant
    variant: ReplayedVariant
    counted: IntArray

    @property
    def places_before(self) -> IntArray:
        """Places of the counted jobs in the base."""
        return self.base.at(self.counted)

    @property
    def places_after(self) -> IntArray:
        """The same in the variant."""
        return self.variant.at(self.counted)

    def beside(self, other: ReplayedPair) -> ReplayedPair:
        """The variant of this pair against that of another, on the jobs that both count."""
        counted = np.intersect1d(self.counted, other.counted, assume_unique=True)
        return replace(self, base=other.variant, counted=counted)

    @property
    def submit(self) -> FloatArray:
        """When the counted jobs came, seconds, shape [n]."""
        return self.base.prepared.log.submit[self.places_before]


def replay_variants(
    jobs: JobLog,
    base: ClusterVariant,
    variants: Sequence[ClusterVariant],
    placed: Placed,
    settings: SimulationSettings,
    progress: Callable[[int], None],
    *,
    counted_from: float | None = None,
    checkpoint: Path | None = None,
) -> list[ReplayedPair]:
    """Simulate all jobs once under each variant, several variants at a time.

    Args:
        settings: with the bounds of the hook where there is one.
        progress: called with how many more simulations are done.
        counted_from: part of the log's time from which on jobs are counted; None leaves out the
            first part of the jobs, as `evaluate --config` does.
        checkpoint: keeps the starts under each variant, so that an interrupted call goes on; left
            for the caller to remove.

    Raises:
        ConfigurationError: a machine holds none of the jobs, or too few are counted.
        SimulationError: a variant cannot be simulated.
    """
    jobs = replace(jobs, job_id=np.arange(len(jobs)))
    now = placed(jobs, base.machine)

    def ready(variant: ClusterVariant) -> ReplayedVariant:
        sentences: list[str] = []
        if _schedules_alone(base.machine, variant.machine):
            prepared = replace(now, machine=variant.machine)  # the same jobs, ready already
        else:
            sent, sentences = admitted(jobs, base.machine, variant.machine)
            prepared = placed(sent, variant.machine)
        return ReplayedVariant(
            variant=variant,
            prepared=prepared,
            sentences=(*variant.sentences, *sentences),
            settings=variant.settings(settings),
        )

    runs = side_by_side(ready, [base, *variants])
    kept = Checkpoint(checkpoint, {"of": "what-if"})  # each step says what it is of
    before = {name: np.asarray(start) for name, start in kept.steps}
    names = ["" if checkpoint is None else each.digest for each in runs]
    starts: list[FloatArray | None] = [before.get(name) for name in names]
    missing = [place for place, start in enumerate(starts) if start is None]
    progress(len(runs) - len(missing))

    def keep(missed: int, start: FloatArray) -> None:
        place = missing[missed]
        starts[place] = start
        if checkpoint is not None:
            kept.add([names[place], start.tolist()])
        progress(1)

    side_by_side(ReplayedVariant.starts, [runs[place] for place in missing], finished=keep)
    known = [start for start in starts if start is not None]  # none is missing any more
    replayed = zip(runs, known, strict=True)
    first, *others = (replace(run, start=start) for run, start in replayed)
    pairs = [
        ReplayedPair(base=first, variant=each, counted=_counted(first, each, counted_from))
        for each in others
    ]
    for pair in pairs:
        if len(pair.counted) < FEWEST_JOBS:
            raise ConfigurationError(
                f"{pair.variant.variant.name}: {len(pair.counted)} jobs are left to compare, too "
                "few: give a longer log."
            )
    return pairs


def _schedules_alone(before: Machine, after: Machine) -> bool:
    """Whether machines differ in weights of priorities and in backfill alone."""
    alike = replace(
        after, weights=before.weights, backfill=before.backfill, left_out=before.left_out
    )
    return alike == before and before.billing == after.billing


def _counted(base: ReplayedVariant, other: ReplayedVariant, begin: float | None) -> IntArray:
    jobs, submit = base.prepared.log.job_id, base.prepared.log.submit
    first, last = (int(len(jobs) * part) for part in UNCOUNTED)
    if begin is not None:
        first = int(np.searchsorted(submit, submit[0] + begin * (submit[-1] - submit[0])))
    last = len(jobs) - last
    mine = jobs[first:last]
    return np.intersect1d(mine, other.prepared.log.job_id, assume_unique=True).astype(np.int64)


def left_out(pair: ReplayedPair) -> list[str]:
    """Sentences on jobs that one machine runs and the other cannot."""
    before, after = pair.base.prepared.dropped, pair.variant.prepared.dropped
    return [
        f"{count - before.get(reason, 0)} jobs that run now could not: {reason}."
        for reason, count in after.items()
        if count > before.get(reason, 0)
    ]
