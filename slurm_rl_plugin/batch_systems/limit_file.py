"""The file that remembers a site's own limit while one of ours stands in its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE, KeptRecord
from slurm_rl_plugin.errors import ConfigurationError

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLimit:
    """What was there before us, and every limit that we may have put in its place.

    Several: a write that nothing has confirmed may have been lost.

    Attributes:
        mechanism: what carries the limit, `qos` for example.
        names: of what the mechanism uses, the QOS for example.
        own: processors of the site's own limit; None where it had none.
        ours: processors.
        confirmed: the last write was seen to be done; else one may still be under way.
    """

    mechanism: str
    names: tuple[str, ...]
    own: int | None = None
    ours: frozenset[int] = frozenset()
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class LimitFile:
    """Exists while a limit of ours may stand; written before the limit is, so never too late.

    Attributes:
        path: of the file; None keeps nothing, for those who only look.
    """

    path: Path | None

    def read(self) -> StandingLimit | None:
        """What is remembered; None where no limit of ours can stand.

        Raises:
            ConfigurationError: the file cannot be read or is no such file.
        """
        try:
            return KeptRecord(self.path).read(_parsed) if self.path else None
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be read ({error}), nor its "
                "copy: set the limit by hand (sacctmgr -i modify qos NAME set GrpTRES=cpu=N, -1 "
                "for none, or scontrol delete reservation=NAME; docs/reserve.md), then remove the "
                "file."
            ) from None

    def write(self, standing: StandingLimit) -> None:
        """Replace the file: written beside, synced, renamed.

        Raises:
            ConfigurationError: the folder is missing or not writable; then nothing may be limited.
        """
        if self.path is None:
            raise ConfigurationError("no file is given to keep the site's own limit in.")
        content = {
            "version": _VERSION,
            "mechanism": standing.mechanism,
            "names": list(standing.names),
            "own": standing.own,
            "ours": sorted(standing.ours),
            "confirmed": standing.confirmed,
        }
        try:
            KeptRecord(self.path).write(content)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be written "
                f"({error.strerror}): make its folder writable for this user."
            ) from None

    def remove(self) -> None:
        """Remove the file, since no limit of ours stands any more.

        Raises:
            ConfigurationError: the folder is not writable.
        """
        try:
            if self.path is not None:
                KeptRecord(self.path).remove()
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be removed "
                f"({error.strerror}): make its folder writable for this user."
            ) from None


def _parsed(content: dict[str, object]) -> StandingLimit:
    version, own, ours, names = (content[key] for key in ("version", "own", "ours", "names"))
    if version != _VERSION or not isinstance(ours, list) or not isinstance(names, list):
        raise ValueError(f"version {version}")
    limit = None if own is None else int(str(own))
    set_by_us = frozenset(int(each) for each in ours)
    if limit is not None and any(each >= limit for each in set_by_us):
        raise ValueError("ours is not below the site's own, as it always is")
    return StandingLimit(
        mechanism=str(content["mechanism"]),
        names=tuple(str(name) for name in names),
        own=limit,
        ours=set_by_us,
        confirmed=content["confirmed"] is True,
    )
