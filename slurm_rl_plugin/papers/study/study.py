"""What every study is: it is asked for something, and gives claims, facts and figures.

A study is a folder of `papers` with a module `study` that has `run`, and a line in
`papers.registry`. What an option means to it, it says itself: it takes what it needs of what was
asked (`Asked.number_of_seeds`, `Asked.traces_or_refuse`), and refuses the rest in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.claim_tables import Report, judged_claims
from slurm_rl_plugin.papers.study.claims import Claim

#: Told how many parts of the work more are done.
Add = Callable[[int], None]
#: Shows work of so many parts under a title while it lasts.
Bar = Callable[[str, int], AbstractContextManager[Add]]
#: File of a figure -> gives a matplotlib figure.
Drawings = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a study, and what it works with.

    Attributes:
        paper: name of the study.
        usual_seeds: how many where nobody says.
        seeds: how many of its logs, grids or trainings; None where nobody says.
        traces: folder of job logs; None where none is named.
        traces_given: whether that folder was given with this study, not named for all.
        models: folder of the result store.
        policy: file of a network to take in place of trained ones; None for none.
        quick: whether all is to be small, to see that it runs.
        search: whether a score is to be searched, too, of the study that does.
        shipped: gives the file of a model that comes with the package, by its name.
        bar: shows how far the work is.
        say: tells the user a sentence.
    """

    paper: str
    usual_seeds: int
    seeds: int | None
    traces: Path | None
    traces_given: bool
    models: Path
    policy: Path | None
    quick: bool
    search: bool
    shipped: Callable[[str], Path]
    bar: Bar
    say: Callable[[str], None]

    def number_of_seeds(
        self, fewest: int = 2, why: str = "an interval over the seeds needs at least 2"
    ) -> int:
        """How many seeds.

        Args:
            fewest: that make sense.
            why: fewer do not, a clause.

        Raises:
            ConfigurationError: fewer.
        """
        seeds = self.usual_seeds if self.seeds is None else self.seeds
        if seeds < fewest:
            raise ConfigurationError(f"--seeds {seeds}: {why}.")
        return seeds

    def traces_or_refuse(self, sentence: str) -> Path:
        """The folder of logs, of a study that cannot do without.

        Raises:
            ConfigurationError: none is named; it says the sentence.
        """
        if self.traces is None:
            raise ConfigurationError(sentence)
        return self.traces

    def traces_or_less(self, left_out: str) -> Path | None:
        """The folder of logs, of a study that leaves a part out without, which is told."""
        if self.traces is None:
            self.say(f"No traces are named: {left_out}.")
        return self.traces

    def refuse_policy(self, why: str) -> None:
        """End where a network is given to a study that takes none.

        Raises:
            ConfigurationError: one is given.
        """
        if self.policy is not None:
            raise ConfigurationError(f"--policy is not for {self.paper}: {why}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a study.

    Attributes:
        claims: each with the published and the measured figure.
        seeds: that were run.
        table: makes a report of the claims.
        more: what people are told behind it.
        facts: further entries of the JSON document.
        drawings: its figures.
        manifest: what the file beside the figures tells of them; None for no such file.
    """

    claims: Sequence[Claim]
    seeds: Sequence[int]
    table: Callable[[Any], Report] = judged_claims
    more: Report = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    drawings: Drawings = field(default_factory=dict)
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
