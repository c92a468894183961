"""What a study is asked for and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.claims import Report, Row, judged_claims

#: Called with the number of further steps that are done.
Add = Callable[[int], None]
#: Shows a progress bar of a title and a number of steps.
Bar = Callable[[str, int], AbstractContextManager[Add]]
#: File of a figure -> makes a matplotlib figure.
Drawings = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Sizes of logs and trainings."""

    jobs: int = 0  #: of a generated log; 0 for as many as in the paper
    #: training, validation: generated logs to learn on, and to choose the network on.
    training: int = 6
    validation: int = 4
    sweeps: int = 20
    iterations: int = 6
    learners: int = 3  #: networks that differ by their seed alone

    def jobs_of(self, printed: int) -> int:
        """Jobs of a log that has `printed` in the paper."""
        return self.jobs or printed

    def drop_of(self, printed: tuple[int, int]) -> tuple[int, int]:
        """First and last jobs that are not counted: as printed, but at most a tenth of a log."""
        most = self.jobs // 10 if self.jobs else max(printed)
        return min(printed[0], most), min(printed[1], most)


FULL = Effort()
#: For a smoke test; its figures are no reproduction.
QUICK = Effort(jobs=600, training=2, validation=1, sweeps=3, iterations=2, learners=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `slurm-rl reproduce`, and what a study works with."""

    paper: str  #: name of the study
    usual_seeds: int  #: the default of `seeds`
    seeds: int | None  #: logs, grids or trainings; None where not given
    traces: Path | None  #: folder of job logs; None without one
    traces_given: bool  #: whether that folder was an argument, not the environment's
    models: Path  #: folder of the result store
    quick: bool  #: whether everything is small, as a smoke test
    shipped: Callable[[str], Path]  #: name of a model of the package -> its file
    bar: Bar
    say: Callable[[str], None]  #: prints a sentence for the user

    @property
    def effort(self) -> Effort:
        """Sizes of logs and trainings."""
        return QUICK if self.quick else FULL

    def number_of_seeds(
        self, fewest: int = 2, why: str = "an interval over the seeds needs at least 2"
    ) -> int:
        """The number of seeds; `why` is a clause for the error on fewer."""
        seeds = self.usual_seeds if self.seeds is None else self.seeds
        if seeds < fewest:
            raise ConfigurationError(f"--seeds {seeds}: {why}.")
        return seeds

    @property
    def logs(self) -> Path:
        """The folder of logs, required."""
        if self.traces is None:
            raise ConfigurationError(
                f"{self.paper} needs TRACES_DIR (see --help): name it, or set SLURM_RL_TRACES."
            )
        return self.traces

    def traces_or_less(self, left_out: str = "the parts on LPC-EGEE are left out") -> Path | None:
        """The folder of logs; without one the user is warned of what is left out."""
        if self.traces is None:
            self.say(f"No traces are named: {left_out}.")
        return self.traces

    def refuse_seeds(self, why: str) -> None:
        """Refuse --seeds for a study that draws nothing."""
        if self.seeds is not None:
            raise ConfigurationError(f"--seeds is not for {self.paper}: {why}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of a study."""

    claims: Sequence[Row]
    seeds: Sequence[int]
    table: Callable[[Any], Report] = judged_claims  #: makes a report of the claims
    #: Further entries of the JSON document; the tables among them are printed.
    facts: Mapping[str, Any] = field(default_factory=dict)
    drawings: Drawings = field(default_factory=dict)
    #: Further entries of the file written next to the figures; None for no such file.
    manifest: Mapping[str, Any] | None = None


class Study(Protocol):
    """An experiment that can be run again: a module with this function."""

    def run(self, asked: Asked) -> Outcome:
        """Run the experiment; the caller draws and prints.

        Raises:
            ConfigurationError: the options do not fit, or a log is missing.
            AccountingLogError: a log cannot be read.
        """
        ...
