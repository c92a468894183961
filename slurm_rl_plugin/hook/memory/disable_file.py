"""The disable file: made by an admin, read by the daemon; while it counts, nothing is written.

An empty file means: off, until the file is removed. `slurm-rl disable` and `pause` also write who,
when, why and until when, one `key: value` a line. Any other content, and a file that cannot be
read, means off without end: that error is harmless, since the site keeps its own order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from slurm_rl_plugin.errors import DisableFileError
from slurm_rl_plugin.readable import time_text
from slurm_rl_plugin.whole_file import plain_file, write_whole

#: Bytes of the longest file that `slurm-rl disable` writes.
_LONGEST = 10_000
#: Letters of what is said in one of its lines.
_LONGEST_VALUE = 500
_KEYS = ("by", "at", "until", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disablement:
    """Who disabled the daemon, when, until when and why, as the disable file says."""

    by: str = ""  #: who made it; "" if unknown
    at: float = math.nan  #: seconds since the epoch; NaN if unknown
    until: float = math.inf  #: seconds since the epoch; inf for no end
    reason: str = ""  #: "" if unknown
    fault: str = ""  #: what is not understood, so that the file counts without end; "" if nothing

    def counts(self, now: float) -> bool:
        """Whether nothing may be written at `now`, seconds since the epoch."""
        return now < self.until

    @property
    def words(self) -> str:
        """The disablement for people, such as `by alice since 2026-11-22T03:00:00, until ...`."""
        parts = [f"by {self.by}"] if self.by else []
        parts += [f"since {time_text(self.at)}"] if math.isfinite(self.at) else []
        end = f"until {time_text(self.until)}" if math.isfinite(self.until) else "without end"
        text = " ".join([*parts, end])
        return text + "".join(f", {each}" for each in (self.reason, self.fault) if each)


def read_disable_file(path: Path) -> Disablement | None:
    """What the file says; None only where there is none. Never raises, never waits."""
    try:
        with plain_file(path) as file:
            return _parsed(file.read(_LONGEST + 1))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Disablement(fault=f"the file cannot be read ({error.strerror})")


def write_disable_file(path: Path, disablement: Disablement) -> None:
    """Write it whole, readable by the daemon's user whatever the umask; else DisableFileError."""
    values = {
        "by": disablement.by,
        "at": _stamp(disablement.at) if math.isfinite(disablement.at) else "",
        "until": _stamp(disablement.until) if math.isfinite(disablement.until) else "",
        "reason": disablement.reason,
    }
    lines = [f"{key}: {_plain(value)}\n" for key, value in values.items() if value]
    try:
        write_whole(path, "".join(lines), for_all=True)
    except OSError as error:
        raise DisableFileError(
            f"{path} cannot be made ({error.strerror}): do it as a user who may write to "
            f"{path.parent}, root as a rule."
        ) from None


def remove_disable_file(path: Path) -> None:
    """Remove it if it is there; DisableFileError where the folder is not writable."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DisableFileError(
            f"{path} cannot be removed ({error.strerror}): do it as a user who may write to "
            f"{path.parent}, root as a rule."
        ) from None


@dataclass(slots=True)
class DisableWatch:
    """Reads the file for the daemon, whose clock may be set while a pause lasts.

    A pause ends when both clocks say so: its `until` has come, and the seconds that were left when
    it was first seen have gone by on the monotonic clock. So setting the clock forward does not end
    it early, and setting it back prolongs it, which is harmless. A pause that is over stays over.
    """

    _seen: Disablement | None = None
    _ends: float = -math.inf
    _over: bool = False

    def standing(self, path: Path | None, now: float, monotonic: float) -> Disablement | None:
        """What keeps the daemon from writing; None where nothing does."""
        found = None if path is None else read_disable_file(path)
        if found is None:
            self._seen = None
            return None
        if found != self._seen:
            self._seen, self._ends, self._over = found, monotonic + (found.until - now), False
        self._over = self._over or not (found.counts(now) or monotonic < self._ends)
        return None if self._over else found


def _plain(value: str) -> str:
    """As `_parsed` reads it: what one cannot print would switch off without end, or not at all."""
    printable = "".join(each if each.isprintable() else " " for each in value)
    return " ".join(printable.split())[:_LONGEST_VALUE]


def _parsed(content: bytes) -> Disablement:
    odd = Disablement(fault="what it says is not understood")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return odd
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon or key not in _KEYS or key in values or not value.strip().isprintable():
            return odd
        values[key] = value.strip()
    try:
        at = _moment(values["at"]) if "at" in values else math.nan
        until = _moment(values["until"]) if "until" in values else math.inf
    except ValueError:
        return odd
    if len(content) > _LONGEST or until <= at:
        return odd
    return Disablement(by=values.get("by", ""), at=at, until=until, reason=values.get("reason", ""))


def _moment(text: str) -> float:
    """Seconds since the epoch of a time that names its zone."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(text)
    return time.timestamp()


def _stamp(seconds: float) -> str:
    """With the zone, so that daemon and admin may live in different ones."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="seconds")
