"""What the model in service gains, as the watch beside the daemon left it in a file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, read_whole, version_of, write_whole

#: When a model gained what is told: before it came, and in the last weeks.
GAIN_TIMES = ("promised", "lately")
#: A week: its begin (seconds), and its cost under the site's own order and under the model.
WeekRow = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGain:
    """What is kept of the gain of one model.

    Attributes:
        policy: its name.
        model_sha256: of its file.
        since: end of the weeks of reference, seconds since the epoch.
        reference: weeks before it was first seen in service.
        later: weeks since.
        promised: cost under the model over that under the site's order in the weeks of reference;
            NaN where nobody waited, or too little is known.
        lately: the same in the last weeks.
        evidence: that the gain is less than it was, over what it takes to say so.
        lost_at: when that was said, seconds since the epoch; None for not.
    """

    policy: str
    model_sha256: str
    since: float
    reference: tuple[WeekRow, ...]
    later: tuple[WeekRow, ...] = ()
    promised: float = math.nan
    lately: float = math.nan
    evidence: float = 0.0
    lost_at: float | None = None

    def is_of(self, policy: str, model_sha256: str) -> bool:
        """Whether it tells of this model."""
        return (self.policy, self.model_sha256) == (policy, model_sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainFile:
    """Reads and writes it.

    Attributes:
        path: beside the state file.
    """

    path: Path

    @classmethod
    def beside(cls, state_file: Path) -> GainFile:
        """That of a daemon."""
        return cls(path=state_file.with_name(f"{state_file.name}.gain"))

    def read(self) -> KeptGain | None:
        """What is kept; None where nothing is, or nobody can read it."""
        try:
            return _of_json(json.loads(read_whole(self.path)))
        except (OSError, ValueError, RecursionError):
            return None

    def write(self, kept: KeptGain) -> None:
        """Replace it.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        document = asdict(kept)
        for name in GAIN_TIMES:
            document[name] = None if math.isnan(document[name]) else document[name]
        try:
            write_whole(self.path, json.dumps(document) + "\n", mode=PRIVATE)
        except OSError as error:
            raise self._unwritable(error) from None

    def forget(self) -> None:
        """Let the next weeks of reference begin anew.

        Raises:
            ConfigurationError: the folder is not writable for this user.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} cannot be written ({error.strerror}): do it as the daemon's user, or as "
            "root."
        )


def _of_json(document: Any) -> KeptGain:
    """What `GainFile.write` made.

    Raises:
        ValueError: it is no such document.
    """
    try:
        given = dict(document)
        for name in ("reference", "later"):
            given[name] = tuple(_week(*row) for row in given[name])
        for name in GAIN_TIMES:
            given[name] = math.nan if given[name] is None else float(given[name])
        given["since"], given["evidence"] = float(given["since"]), float(given["evidence"])
        if given["lost_at"] is not None:
            given["lost_at"] = float(given["lost_at"])
        return KeptGain(**given)
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"nothing is kept of a gain: {error}") from None


def _week(begin: float, by_site: float, by_ours: float) -> WeekRow:
    found = (float(begin), float(by_site), float(by_ours))
    if not all(math.isfinite(each) for each in found):
        raise ValueError("a week without a cost")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GainReport:
    """What a cycle's report says of it; NaN for what is not known.

    Attributes:
        promised, lately: see `KeptGain`.
        is_lost: whether it is said to be less than it was.
    """

    promised: float = math.nan
    lately: float = math.nan
    is_lost: bool = False


@dataclass(slots=True, kw_only=True)
class GainSeen:
    """Reads the file where it has changed.

    Attributes:
        file: of the daemon.
    """

    file: GainFile
    _version: object = None
    _kept: KeptGain | None = field(default=None)

    def report(self, policy: str, model_sha256: str) -> GainReport:
        """What is known of the model in service; nothing of another one."""
        version = version_of(self.file.path)
        if version != self._version:
            self._version, self._kept = version, self.file.read()
        kept = self._kept
        if kept is None or not kept.is_of(policy, model_sha256):
            return GainReport()
        return GainReport(
            promised=kept.promised, lately=kept.lately, is_lost=kept.lost_at is not None
        )
