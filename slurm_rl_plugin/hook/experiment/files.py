"""Files of an experiment, next to the state file: its declaration, its state, its journal.

Who starts, watches and stops an experiment writes the first two whole; the daemon adds lines to the
third. So state survives whatever is killed, restarted, upgraded or taken over by another host.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.memory.records import beside
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.whole_file import (
    PRIVATE,
    append_whole,
    own_file,
    owner_of_folder,
    read_own,
    write_whole,
)

logger = logging.getLogger(__name__)

#: How an experiment may stand; in all but the first the site's own order is in force.
RUNNING, STEPPED_BACK, STOPPED, OVER = "running", "stepped back", "stopped", "over"
STATES = (RUNNING, STEPPED_BACK, STOPPED, OVER)
#: In words of a metric: no experiment, whose block it is, or ours but left to the site.
EXPERIMENT_PHASES = ("none", "site", "ours", "left_to_site")
#: What is known of a goal.
EXPERIMENT_WORDS = (BETTER, WORSE, INCONCLUSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStanding:
    """How an experiment stands.

    Attributes:
        state: one of STATES.
        reason: one sentence; "" while it runs.
        at: when that came about, seconds since the epoch.
        looked: when somebody last looked at what it costs, seconds since the epoch.
    """

    state: str
    reason: str
    at: float
    looked: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What was in force from a time on, as the daemon noted it.

    Attributes:
        time: seconds since the epoch.
        arm: whose turn it was, one of ARMS; "" if there was none.
        mode: of the cycle, one of MODES, or "failed".
        why: the daemon left the queue to the site although it was our turn; "" for no reason.
        misdelivered: part of the last fortnight's service that went to the wrong account; None
            where shares do not count, or too little has been seen.
    """

    time: float
    arm: str
    mode: str
    why: str = ""
    misdelivered: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSeen:
    """What has been found of one goal.

    Attributes:
        goal: name.
        ratio: cost of ours over the site's.
        low, high: ends of its interval.
        word: one of EXPERIMENT_WORDS.
    """

    goal: str
    ratio: float
    low: float
    high: float
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """An experiment as a cycle saw it.

    Attributes:
        phase: one of EXPERIMENT_PHASES.
        state: how it stands; "" of none.
        goals: what has been found so far.
        pairs: of blocks that are over.
    """

    phase: str = "none"
    state: str = ""
    goals: tuple[GoalSeen, ...] = ()
    pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFiles:
    """Reads and writes them; ConfigurationError where the folder is not writable for this user.

    Attributes:
        state_file: of the daemon.
    """

    state_file: Path

    @property
    def declaration(self) -> Path:
        """What was declared."""
        return beside(self.state_file, "experiment")

    @property
    def standing(self) -> Path:
        """How it stands."""
        return beside(self.declaration, "standing")

    @property
    def look(self) -> Path:
        """When somebody last looked at what it costs."""
        return beside(self.declaration, "look")

    @property
    def journal(self) -> Path:
        """What was in force, a line each time that it changed."""
        return beside(self.declaration, "journal")

    @property
    def findings(self) -> Path:
        """What it has found so far."""
        return beside(self.declaration, "findings")

    def declared(self) -> Declaration | None:
        """What was declared; None where nothing is.

        Raises:
            ValueError: the file is no declaration.
            OSError: it cannot be read.
        """
        try:
            return Declaration.of_json(_document(self.declaration))
        except FileNotFoundError:
            return None

    def stands(self) -> ExperimentStanding:
        """How it stands.

        Raises:
            ValueError: the file tells of no standing.
            OSError: it cannot be read, or is not there.
        """
        try:
            found = ExperimentStanding(**_document(self.standing))
            at = float(found.at)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"no standing: {error}") from None
        if found.state not in STATES or not math.isfinite(at):
            raise ValueError(f"no standing: {found.state!r}")
        return self.looked_at(replace(found, reason=str(found.reason), at=at))

    def looked_at(self, standing: ExperimentStanding) -> ExperimentStanding:
        """The same with the time of the last look, or of the state if that time cannot be read."""
        try:
            found = float(_document(self.look))
        except (OSError, ValueError, TypeError, OverflowError):
            found = standing.at
        return replace(standing, looked=max(standing.at, found if math.isfinite(found) else 0.0))

    def looked(self, now: float) -> None:
        """Say that somebody has looked `now`, seconds since the epoch.

        In a file of its own: who says so must not undo what somebody else says of the standing.
        """
        _write(self.look, now)

    def declare(self, declared: Declaration, standing: ExperimentStanding) -> None:
        """Begin one: the standing first, so that no declaration ever counts without."""
        for path in (self.findings, self.look, self.journal):
            with _told(path):
                path.unlink(missing_ok=True)  # of an earlier one that was put away in part
        self.stand(standing)
        _write(self.declaration, declared.as_json())

    def stand(self, standing: ExperimentStanding) -> None:
        """Write how it stands."""
        told = asdict(standing)
        del told["looked"]
        _write(self.standing, told)

    def find(self, document: dict[str, Any]) -> None:
        """Leave what was found."""
        _write(self.findings, document)

    def found(self) -> dict[str, Any] | None:
        """What was found so far; None if nothing was, or it cannot be read."""
        try:
            found = _document(self.findings)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def goals_seen(self) -> tuple[tuple[GoalSeen, ...], int]:
        """What was found of each goal, and of how many pairs; nothing where that is odd."""
        try:
            found = self.found() or {"goals": (), "pairs": 0}
            return tuple(_goal(each) for each in found["goals"]), int(found["pairs"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return (), 0

    def put_away(self, number: int) -> None:
        """Rename the files of an experiment that is over; the configuration then counts again."""
        # the declaration first: without it none of the others counts
        for path in (self.declaration, self.standing, self.look, self.journal, self.findings):
            with _told(path), suppress(FileNotFoundError):
                path.rename(beside(path, str(number)))

    def note(self, entry: InForce) -> None:
        """Add a line to the journal; a disk that is full costs a line and no cycle."""
        try:
            opened = own_file(self.journal, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with os.fdopen(opened, "a+b", buffering=0) as file:
                append_whole(file, f"{json.dumps(asdict(entry))}\n".encode())
        except OSError as error:
            logger.warning("experiment=unjournaled path=%s error=%s", self.journal, error)

    def journaled(self) -> Iterator[InForce]:
        """Lines of the journal; one that was cut short is left out."""
        with suppress(FileNotFoundError):
            opened = own_file(self.journal, owners=owner_of_folder(self.journal))
            with os.fdopen(opened, "rb") as file:
                yield from (entry for line in file if (entry := _entry(line)) is not None)


def _document(path: Path) -> Any:
    try:
        return json.loads(read_own(path, owners=owner_of_folder(path)))
    except RecursionError as error:
        raise ValueError(f"{path} is no such file: {error}") from None


def _write(path: Path, document: object) -> None:
    with _told(path):
        write_whole(path, json.dumps(document, indent=1) + "\n", mode=PRIVATE)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}): do it as the daemon's user, or as root."
        ) from None


def _goal(found: Mapping[str, Any]) -> GoalSeen:
    ratio, low, high = (
        math.nan if found[name] is None else float(str(found[name]))
        for name in ("ratio", "low", "high")
    )
    word = found["word"] if found["word"] in EXPERIMENT_WORDS else EXPERIMENT_WORDS[-1]
    return GoalSeen(goal=str(found["goal"]), ratio=ratio, low=low, high=high, word=word)


def _entry(line: bytes) -> InForce | None:
    """A line of the journal; None where it is none."""
    try:
        found = InForce(**json.loads(line))
        time = float(found.time)
        if found.misdelivered is not None:
            found = replace(found, misdelivered=float(found.misdelivered))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return replace(found, time=time) if math.isfinite(time) else None
