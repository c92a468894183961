"""How much a reproduction of a learning paper computes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.papers.study.study import Asked
from slurm_rl_plugin.policies.network import QNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Sizes of logs and trainings.

    Attributes:
        jobs: of a generated log; 0 for as many as the paper has.
        training, validation: generated logs to learn on, and to choose on.
        sweeps: of SARSA.
        iterations: of fitted Q.
        learners: networks that differ by their seed alone, where learning itself is measured.
    """

    jobs: int = 0
    training: int = 6
    validation: int = 4
    sweeps: int = 20
    iterations: int = 6
    learners: int = 3

    def jobs_of(self, printed: int) -> int:
        """Jobs of a log that has `printed` in the paper."""
        return self.jobs or printed

    def drop_of(self, printed: tuple[int, int]) -> tuple[int, int]:
        """First and last jobs that are not counted: as printed, but at most a tenth of a log."""
        most = self.jobs // 10 if self.jobs else max(printed)
        return min(printed[0], most), min(printed[1], most)


FULL = Effort()
#: To see that it runs; its figures are no reproduction.
QUICK = Effort(jobs=600, training=2, validation=1, sweeps=3, iterations=2, learners=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a learning paper runs.

    Attributes:
        seeds: generated logs of each kind, seeds 0 to `seeds` - 1.
        traces: folder with LPC-EGEE; None leaves its segments out.
        network: in place of those trained here.
        effort: sizes of logs and trainings.
    """

    seeds: int
    traces: Path | None = None
    network: QNetwork | None = None
    effort: Effort = FULL

    @classmethod
    def of(cls, asked: Asked) -> Plan:
        """What is asked of a learning paper.

        Raises:
            ConfigurationError: too few seeds.
        """
        return cls(
            seeds=asked.number_of_seeds(),
            traces=asked.traces_or_less("the parts on LPC-EGEE are left out"),
            effort=QUICK if asked.quick else FULL,
        )
