"""A record of what a site had set before us, kept twice: one broken file loses nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: What is raised where a file cannot be read or is no such record.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """The file, and a copy beside it that counts only while the file is there and broken."""

    path: Path  #: of the file; nothing is kept where it is missing, whatever the copy says

    @property
    def copy(self) -> Path:
        """Written before the file and removed before it, so it is never of an earlier record."""
        return self.path.with_name(self.path.name + ".copy")

    def read(self, parsed: Callable[[Any], _Parsed]) -> _Parsed:
        """What `parsed` makes of the file, or of its copy where the file cannot be read.

        Raises one of UNREADABLE where neither can, FileNotFoundError where there is no file.
        """
        try:
            return parsed(json.loads(_content(self.path)))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            try:
                found = parsed(json.loads(_content(self.copy)))
            except UNREADABLE:
                raise error from None
            logger.warning("record=broken gone_by=copy path=%s error=%s", self.path, error)
            return found

    def write(self, document: Any) -> None:
        """Replace the copy, then the file, by this JSON document."""
        content = json.dumps(document)
        for path in (self.copy, self.path):
            write_whole(path, content, mode=PRIVATE)

    def remove(self) -> None:
        """Remove the copy and the file; either may be missing."""
        for path in (self.copy, self.path):
            path.unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    return read_own(path, owners=owner_of_folder(path))


#: The first knows processors alone; it is still written where nothing else is limited.
_PROCESSORS, _RESOURCES = 1, 2
#: A limit: of each resource in turn, None where it has none.
Amounts = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLimit:
    """What was there before us, and every limit that we may have put in its place.

    Several: a write that nothing has confirmed may have been lost.
    """

    mechanism: str  #: what carries the limit, `qos` for example
    names: tuple[str, ...]  #: of what the mechanism uses, the QOS for example
    resources: tuple[str, ...] = (CPUS,)  #: limited, of BASIC_RESOURCES; amounts are in this order
    own: Amounts = (None,)  #: the site's own limit
    ours: frozenset[Amounts] = frozenset()  #: each below the site's own
    confirmed: bool = False  #: the last write was seen to be done


@dataclass(frozen=True, slots=True)
class LimitFile:
    """Exists while a limit of ours may stand; written before the limit is, so never too late.

    Where the file cannot be read or changed ConfigurationError says so, and nothing may be limited.
    """

    path: Path | None  #: of the file; None keeps nothing, for those who only look

    def read(self) -> StandingLimit | None:
        """What is remembered; None where no limit of ours can stand."""
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
        """Replace the file: written beside, synced, renamed."""
        if self.path is None:
            raise ConfigurationError("no file is given to keep the site's own limit in.")
        content = {
            "mechanism": standing.mechanism,
            "names": list(standing.names),
            "confirmed": standing.confirmed,
            **_amounts_of(standing),
        }
        with self._said("written"):
            KeptRecord(self.path).write(content)

    def remove(self) -> None:
        """Remove the file, since no limit of ours stands any more."""
        if self.path is not None:
            with self._said("removed"):
                KeptRecord(self.path).remove()

    @contextmanager
    def _said(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be {done} "
                f"({error.strerror}): make its folder writable for this user."
            ) from None


def lower(wanted: Amounts, own: Amounts) -> Amounts:
    """Of each resource the lower of two limits."""
    return tuple(
        mine if its is None else its if mine is None else min(mine, its)
        for mine, its in zip(wanted, own, strict=True)
    )


def _amounts_of(standing: StandingLimit) -> dict[str, object]:
    if standing.resources == (CPUS,):
        (own,) = standing.own
        return {
            "version": _PROCESSORS,
            "own": own,
            "ours": sorted(each[0] or 0 for each in standing.ours),
        }
    ours = sorted(standing.ours, key=lambda each: [amount or 0 for amount in each])
    return {
        "version": _RESOURCES,
        "resources": list(standing.resources),
        "own": list(standing.own),
        "ours": [list(each) for each in ours],
    }


def _parsed(content: dict[str, object]) -> StandingLimit:
    version, names = content["version"], content["names"]
    resources, own, ours = _read_amounts(content)
    if not isinstance(names, list) or not resources or set(resources) - set(BASIC_RESOURCES):
        raise ValueError(f"version {version}")
    if any(each == own or lower(each, own) != each for each in ours):
        raise ValueError("ours is not below the site's own, as it always is")
    return StandingLimit(
        mechanism=str(content["mechanism"]),
        names=tuple(str(name) for name in names),
        resources=resources,
        own=own,
        ours=ours,
        confirmed=content["confirmed"] is True,
    )


def _read_amounts(
    content: dict[str, object],
) -> tuple[tuple[str, ...], Amounts, frozenset[Amounts]]:
    """Resources, the site's own limit, and ours; an error of UNREADABLE for another document."""
    version, own, ours = (content[key] for key in ("version", "own", "ours"))
    if version == _PROCESSORS and isinstance(ours, list):
        return (CPUS,), (_amount(own),), frozenset((_amount(each),) for each in ours)
    resources = content.get("resources")
    if version != _RESOURCES or not isinstance(resources, list) or not isinstance(ours, list):
        raise ValueError(f"version {version}")
    names = tuple(str(name) for name in resources)
    return names, _each(own, names), frozenset(_each(each, names) for each in ours)


def _each(told: object, names: tuple[str, ...]) -> Amounts:
    if not isinstance(told, list) or len(told) != len(names):
        raise ValueError(f"{told} tells not of {len(names)} resources")
    return tuple(_amount(each) for each in told)


def _amount(told: object) -> int | None:
    return None if told is None else int(str(told))
