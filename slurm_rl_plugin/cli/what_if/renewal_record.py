"""What `renew` remembers from one call to the next, and the lock that only one call holds."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, read_whole, write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """The last that `renew` did.

    Attributes:
        experiment: name of the one that it declared; "" for none.
        refused: when no candidate was let on trial, seconds since the epoch; 0 for never.
        why: that was, one sentence.
    """

    experiment: str = ""
    refused: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalRecord:
    """Reads and writes it, beside the state file.

    Attributes:
        state_file: of the daemon.
    """

    state_file: Path

    @property
    def path(self) -> Path:
        """Of the record."""
        return self.state_file.with_name(f"{self.state_file.name}.renewal")

    def read(self) -> Renewed:
        """What was done; nothing where nobody can tell."""
        try:
            found = Renewed(**json.loads(read_whole(self.path)))
            return Renewed(
                experiment=str(found.experiment), refused=float(found.refused), why=str(found.why)
            )
        except (OSError, ValueError, TypeError, OverflowError, RecursionError):
            return Renewed()

    def write(self, renewed: Renewed) -> None:
        """Replace it.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        try:
            write_whole(self.path, json.dumps(asdict(renewed)) + "\n", mode=PRIVATE)
        except OSError as error:
            raise self._unwritable(error) from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock: a second call would replace the candidate of the first.

        Raises:
            ConfigurationError: another call holds it, or the folder is not writable.
        """
        path = self.path.with_name(f"{self.path.name}.lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise ConfigurationError(
                f"another slurm-rl renew is at work ({path} is locked): wait until it has ended."
            ) from None
        finally:
            os.close(lock)

    def _unwritable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} cannot be written ({error.strerror}): do it as the daemon's user, or as "
            "root."
        )
