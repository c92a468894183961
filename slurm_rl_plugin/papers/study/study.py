"""What a study is asked for and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.claims import Claim, Report, judged_claims
from slurm_rl_plugin.policies.network import QNetwork

#: Told how many parts of the work more are done.
Add = Callable[[int], None]
#: Shows work of so many parts under a title while it lasts.
Bar = Callable[[str, int], AbstractContextManager[Add]]
#: File of a figure -> gives a matplotlib figure.
Drawings = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a study, and what it works with."""

    paper: str  #: name of the study
    usual_seeds: int  #: how many where nobody says
    seeds: int | None  #: how many of its logs, grids or trainings; None where nobody says
    traces: Path | None  #: folder of job logs; None where none is named
    traces_given: bool  #: whether that folder was given with this study, not named for all
    models: Path  #: folder of the result store
    policy: Path | None  #: file of a network to take in place of trained ones; None for none
    quick: bool  #: whether all is to be small, to see that it runs
    search: bool  #: whether a score is to be searched, too, of the study that does
    #: Gives the file of a model that comes with the package, by its name.
    shipped: Callable[[str], Path]
    bar: Bar  #: shows how far the work is
    say: Callable[[str], None]  #: tells the user a sentence

    def number_of_seeds(
        self, fewest: int = 2, why: str = "an interval over the seeds needs at least 2"
    ) -> int:
        """How many seeds; `why` is a clause that says why fewer will not do."""
        seeds = self.usual_seeds if self.seeds is None else self.seeds
        if seeds < fewest:
            raise ConfigurationError(f"--seeds {seeds}: {why}.")
        return seeds

    def traces_or_refuse(self, sentence: str) -> Path:
        """The folder of logs, of a study that cannot do without."""
        if self.traces is None:
            raise ConfigurationError(sentence)
        return self.traces

    def traces_or_less(self, left_out: str) -> Path | None:
        """The folder of logs, of a study that leaves a part out without, which is told."""
        if self.traces is None:
            self.say(f"No traces are named: {left_out}.")
        return self.traces

    def refuse_policy(self, why: str) -> None:
        """End where a network is given to a study that takes none."""
        if self.policy is not None:
            raise ConfigurationError(f"--policy is not for {self.paper}: {why}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a study."""

    claims: Sequence[Claim]  #: each with the published and the measured figure
    seeds: Sequence[int]
    table: Callable[[Any], Report] = judged_claims  #: makes a report of the claims
    more: Report = ()  #: what people are told behind it
    facts: Mapping[str, Any] = field(default_factory=dict)  #: further entries of the JSON document
    drawings: Drawings = field(default_factory=dict)
    #: What the file beside the figures tells of them; None for no such file.
    manifest: Mapping[str, Any] | None = None


class Study(Protocol):
    """An experiment that can be run again: a module with this function."""

    def run(self, asked: Asked) -> Outcome:
        """Do all that is asked, but for drawing and printing.

        Raises:
            ConfigurationError: what is asked makes no sense, or a log is missing.
            AccountingLogError: a log cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Sizes of logs and trainings."""

    jobs: int = 0  #: of a generated log; 0 for as many as the paper has
    #: training, validation: generated logs to learn on, and to choose on.
    training: int = 6
    validation: int = 4
    sweeps: int = 20
    iterations: int = 6
    #: Networks that differ by their seed alone, where learning itself is measured.
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
    """What a learning paper runs."""

    seeds: int  #: generated logs of each kind, seeds 0 to `seeds` - 1
    traces: Path | None = None  #: folder with LPC-EGEE; None leaves its segments out
    network: QNetwork | None = None  #: in place of those trained here
    effort: Effort = FULL  #: sizes of logs and trainings

    @classmethod
    def of(cls, asked: Asked) -> Plan:
        """What is asked of a learning paper."""
        return cls(
            seeds=asked.number_of_seeds(),
            traces=asked.traces_or_less("the parts on LPC-EGEE are left out"),
            effort=QUICK if asked.quick else FULL,
        )
