"""Files of an experiment, beside the state file: what was declared, how it stands, what was held.

Who starts, watches and stops an experiment writes the first two whole; the daemon adds lines to the
third. So state survives whatever is killed, restarted, upgraded or taken over by another host.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
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
        arm: whose turn it was, one of ARMS; "" of nobody.
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
class ExperimentFiles:
    """Reads and writes them.

    Attributes:
        state_file: of the daemon.
    """

    state_file: Path

    def _path(self, ending: str) -> Path:
        return self.state_file.with_name(f"{self.state_file.name}.{ending}")

    @property
    def declaration(self) -> Path:
        """What was declared."""
        return self._path("experiment")

    @property
    def standing(self) -> Path:
        """How it stands."""
        return self._path("experiment.standing")

    @property
    def look(self) -> Path:
        """When somebody last looked at what it costs."""
        return self._path("experiment.look")

    @property
    def journal(self) -> Path:
        """What was in force, a line each time that it changed."""
        return self._path("experiment.journal")

    @property
    def findings(self) -> Path:
        """What it has found so far."""
        return self._path("experiment.findings")

    def declared(self) -> Declaration | None:
        """What was declared; None where nothing is.

        Raises:
            ValueError: the file is no declaration.
            OSError: it cannot be read.
        """
        try:
            return Declaration.of_json(json.loads(self._content(self.declaration)))
        except FileNotFoundError:
            return None
        except RecursionError as error:
            raise ValueError(f"no experiment was declared so: {error}") from None

    def stands(self) -> ExperimentStanding:
        """How it stands.

        Raises:
            ValueError: the file tells of no standing.
            OSError: it cannot be read, or is not there.
        """
        try:
            found = ExperimentStanding(**json.loads(self._content(self.standing)))
            at = float(found.at)
        except (TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"no standing: {error}") from None
        if found.state not in STATES or not math.isfinite(at):
            raise ValueError(f"no standing: {found.state!r}")
        return self.looked_at(replace(found, reason=str(found.reason), at=at))

    def looked_at(self, standing: ExperimentStanding) -> ExperimentStanding:
        """The same with when somebody looked last; when it came about where none can tell."""
        try:
            found = float(json.loads(self._content(self.look)))
        except (OSError, ValueError, TypeError, OverflowError, RecursionError):
            found = standing.at
        return replace(standing, looked=max(standing.at, found if math.isfinite(found) else 0.0))

    def looked(self, now: float) -> None:
        """Say that somebody has looked.

        In a file of its own: who says so must not undo what somebody else says of the standing.

        Args:
            now: seconds since the epoch.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        self._write(self.look, now)

    def declare(self, declared: Declaration, standing: ExperimentStanding) -> None:
        """Begin one: the standing first, so that no declaration ever counts without.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        for path in (self.findings, self.look, self.journal):
            try:
                path.unlink(missing_ok=True)  # of an earlier one that was put away in part
            except OSError as error:
                raise _unwritable(path, error) from None
        self.stand(standing)
        self._write(self.declaration, declared.as_json())

    def stand(self, standing: ExperimentStanding) -> None:
        """Say how it stands.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        told = asdict(standing)
        del told["looked"]
        self._write(self.standing, told)

    def find(self, document: dict[str, Any]) -> None:
        """Leave what was found.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        self._write(self.findings, document)

    def found(self) -> dict[str, Any] | None:
        """What was found so far; None where nothing was, or nobody can read it."""
        try:
            found = json.loads(self._content(self.findings))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def put_away(self, number: int) -> None:
        """Rename the files of an experiment that is over, so that the configuration counts again.

        Args:
            number: behind their names.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        # the declaration first: without it none of the others counts
        files = (self.declaration, self.standing, self.look, self.journal, self.findings)
        for path in files:
            try:
                path.rename(path.with_name(f"{path.name}.{number}"))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _unwritable(path, error) from None

    def note(self, entry: InForce) -> None:
        """Add a line to the journal; a disk that is full costs a line and no cycle."""
        try:
            opened = own_file(self.journal, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with os.fdopen(opened, "a+b", buffering=0) as file:
                append_whole(file, f"{json.dumps(asdict(entry))}\n".encode())
        except OSError as error:
            logger.warning("experiment=unjournaled path=%s error=%s", self.journal, error)

    def journaled(self) -> Iterator[InForce]:
        """Lines of the journal; one that was cut short is left out.

        Raises:
            OSError: it cannot be read; a missing one has no line.
        """
        try:
            opened = own_file(self.journal, owners=owner_of_folder(self.journal))
            with os.fdopen(opened, "rb") as file:
                for line in file:
                    entry = _entry(line)
                    if entry is not None:
                        yield entry
        except FileNotFoundError:
            return

    def _content(self, path: Path) -> bytes:
        return read_own(path, owners=owner_of_folder(path))

    def _write(self, path: Path, document: object) -> None:
        try:
            write_whole(path, json.dumps(document, indent=1) + "\n", mode=PRIVATE)
        except OSError as error:
            raise _unwritable(path, error) from None


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


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be written ({error.strerror}): do it as the daemon's user, or as root."
    )
