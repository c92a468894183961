"""A record of what a site had set before us, stored twice so that one broken file loses nothing."""

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
from slurm_rl_plugin.whole_file import PRIVATE, UNREADABLE, kept_json, write_whole

logger = logging.getLogger(__name__)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A file, and a copy in its folder that counts only while the file exists but is broken."""

    path: Path

    @property
    def copy(self) -> Path:
        """Written and removed before the file, so it never holds an earlier record."""
        return self.path.with_name(self.path.name + ".copy")

    def read(self, parsed: Callable[[Any], _Parsed]) -> _Parsed:
        """Parse the file, or its copy if the file cannot be read.

        Raises one of UNREADABLE if neither can be, FileNotFoundError if there is no file.
        """
        try:
            return parsed(kept_json(self.path))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            try:
                found = parsed(kept_json(self.copy))
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


#: Versions of the record. The first has processors alone; it is written if nothing else is limited.
_PROCESSORS, _RESOURCES = 1, 2
#: A limit of each resource in their order, None for no limit.
Amounts = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingLimit:
    """The site's own limit, and every limit that we may have set in its place.

    There may be several, since a write without confirmation may have been lost.
    """

    mechanism: str  #: what carries the limit, such as `qos`
    names: tuple[str, ...]  #: of the carrier, such as the QOS
    resources: tuple[str, ...] = (CPUS,)  #: limited, of BASIC_RESOURCES; amounts are in this order
    own: Amounts = (None,)  #: the site's own limit
    ours: frozenset[Amounts] = frozenset()  #: each below the site's own
    confirmed: bool = False  #: the last write was read back


@dataclass(frozen=True, slots=True)
class LimitFile:
    """The record of an outstanding limit, which is written before the limit.

    ConfigurationError if the file cannot be read or changed: then nothing may be limited.
    """

    path: Path | None  #: None for a command that only reads the limit

    def read(self) -> OutstandingLimit | None:
        """The record; None if our limit cannot be outstanding."""
        try:
            return KeptRecord(self.path).read(_parsed) if self.path else None
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be read ({error}), nor "
                "can its copy: set the limit by hand (sacctmgr -i modify qos NAME set "
                "GrpTRES=cpu=N, -1 for none, or scontrol delete reservation=NAME; "
                "docs/reserve.md), then remove the file."
            ) from None

    def write(self, limit: OutstandingLimit) -> None:
        """Replace the record."""
        if self.path is None:
            raise ConfigurationError("no file is given to keep the site's own limit in.")
        content = {
            "mechanism": limit.mechanism,
            "names": list(limit.names),
            "confirmed": limit.confirmed,
            **_amounts_of(limit),
        }
        with self._explained("written"):
            KeptRecord(self.path).write(content)

    def remove(self) -> None:
        """Remove the record, since our limit is not outstanding."""
        if self.path is not None:
            with self._explained("removed"):
                KeptRecord(self.path).remove()

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limit, cannot be {done} "
                f"({error.strerror}): make its folder writable for this user."
            ) from None


def lower(wanted: Amounts, own: Amounts) -> Amounts:
    """The lower of two limits for each resource."""
    return tuple(
        mine if its is None else its if mine is None else min(mine, its)
        for mine, its in zip(wanted, own, strict=True)
    )


def _amounts_of(limit: OutstandingLimit) -> dict[str, object]:
    ours = sorted(limit.ours, key=lambda each: [amount or 0 for amount in each])
    if limit.resources == (CPUS,):
        (own,) = limit.own
        return {"version": _PROCESSORS, "own": own, "ours": [each[0] or 0 for each in ours]}
    return {
        "version": _RESOURCES,
        "resources": list(limit.resources),
        "own": list(limit.own),
        "ours": [list(each) for each in ours],
    }


def _parsed(content: dict[str, Any]) -> OutstandingLimit:
    """The limit in a record; one of UNREADABLE for another document."""
    if content["version"] == _PROCESSORS:
        resources, amounts = [CPUS], [[content["own"]], *([each] for each in content["ours"])]
    elif content["version"] == _RESOURCES:
        resources, amounts = content["resources"], [content["own"], *content["ours"]]
    else:
        raise ValueError(f"version {content['version']}")
    if not resources or set(resources) - set(BASIC_RESOURCES):
        raise ValueError(f"resources {resources}")
    if any(len(each) != len(resources) for each in amounts):
        raise ValueError(f"a limit is no list of {len(resources)} amounts")
    own, *ours = (tuple(None if n is None else int(str(n)) for n in each) for each in amounts)
    if any(each == own or lower(each, own) != each for each in ours):
        raise ValueError("our limit is not below the site's own, as it always is")
    return OutstandingLimit(
        mechanism=str(content["mechanism"]),
        names=tuple(str(name) for name in content["names"]),
        resources=tuple(resources),
        own=own,
        ours=frozenset(ours),
        confirmed=content["confirmed"] is True,
    )
