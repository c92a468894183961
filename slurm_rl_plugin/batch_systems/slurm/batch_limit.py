"""Sets, reads and restores a limit on what all batch jobs use, by a QOS or by licences.

The limit of a QOS is GrpTRES, such as cpu=N,gres/gpu=M. Only limited resources are written, so
other limits stay as they are (tested on 22.05 to 26.05). Memory is in MiB. Running jobs continue.
The database stores the limit, which outlives slurmctld, slurmdbd and the daemon. A daemon that is
only Operator reserves the licences that batch jobs request.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from slurm_rl_plugin.accounting.slurm.resources import parse_tres
from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.kept_record import KeptRecord
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.machine import read_licences
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.site_factor import DENIED, NO_RIGHT
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
    NothingCarriesLimit,
)
from slurm_rl_plugin.whole_file import as_json, typed

#: Versions of the record. The first has processors alone; it is written if nothing else is limited.
_PROCESSORS, _RESOURCES = 1, 2
BY_HAND = (
    "sacctmgr -i modify qos NAME set GrpTRES=cpu=N, -1 for none, or scontrol delete "
    "reservation=NAME"
)
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
    ours: tuple[Amounts, ...] = ()  #: each below the site's own
    confirmed: bool = False  #: the last write was read back


def record_of(limit: OutstandingLimit) -> dict[str, Any]:
    """The record of a limit."""
    content = {"version": _RESOURCES, **as_json(limit)}
    if limit.resources == (CPUS,):
        content |= {
            "version": _PROCESSORS,
            "own": limit.own[0],
            "ours": [n for (n,) in limit.ours],
        }
        del content["resources"]
    return content


def lower(wanted: Amounts, own: Amounts) -> Amounts:
    """The lower of two limits for each resource."""
    return tuple(
        mine if its is None else its if mine is None else min(mine, its)
        for mine, its in zip(wanted, own, strict=True)
    )


def _parsed(content: dict[str, Any]) -> OutstandingLimit:
    """The limit in a record; one of UNREADABLE for another document."""
    version, own, ours = content.pop("version"), content["own"], content["ours"]
    if version == _PROCESSORS:
        content |= {"own": [own], "ours": [[each] for each in ours]}
    elif version != _RESOURCES:
        raise ValueError(f"version {version}")
    limit: OutstandingLimit = typed(OutstandingLimit, content)
    if not limit.resources or set(limit.resources) - set(BASIC_RESOURCES):
        raise ValueError(f"resources {limit.resources}")
    if len(limit.own) != len(limit.resources):
        raise ValueError(f"{limit.own} is no list of {len(limit.resources)} amounts")
    if any(each == limit.own or lower(each, limit.own) != each for each in limit.ours):
        raise ValueError("our limit is not below the site's own, as it always is")
    return limit


QOS = "qos"
#: Reasons of a job that a limit on batch jobs delays: by a QOS, by licences.
QOS_IS_FULL = frozenset({"QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpGRES"})
NO_LICENSES = "Licenses"
SACCTMGR = ("sacctmgr", "--noheader", "--parsable2")
#: Messages of sacctmgr to a user who is no Administrator.
DENIED_BY_DATABASE = ("have privilege", "Access/permission denied", "Invalid user id")
#: Its messages if slurmdbd does not answer.
NO_DATABASE = ("persistent connection", "PersistInit", "talking to the database", "dbd")
_RECORD = re.compile(r"^QOS=(?P<name>[^(\s]+)\(", re.MULTILINE)
_GROUP = re.compile(r"\bGrpTRES=(?P<tres>\S*)")
_LIVE = re.compile(r"(?:^|,)(?P<tres>[^=,]+)=(?P<limit>N|\d+)\(\d+\)")
#: Slurm's names of the resources that a QOS can limit.
TRES = {CPUS: "cpu", MEMORY: "mem", GPUS: "gres/gpu"}


@dataclass(frozen=True, slots=True)
class LimitCarrier(ABC):
    """An object of Slurm that carries the limit on batch jobs."""

    mechanism: ClassVar[str]  #: as in [reserve] mechanism
    commands: CommandRunner
    names: tuple[str, ...]  #: of the QOS, or of the licence and the reservation
    resources: tuple[str, ...] = (CPUS,)  #: every limit is in this order

    @abstractmethod
    def live(self) -> Amounts:
        """The limit that slurmctld enforces; ChangeRejected if the carrier is missing."""

    def stored(self) -> Amounts:
        """The limit that a restart of slurmctld would find."""
        return self.live()

    @abstractmethod
    def write(self, limit: Amounts) -> None:
        """Set the limit, None for no limit."""

    def site_own(self, found: Amounts) -> Amounts:
        """The site's own limit, given the limit found before ours."""
        return found

    def as_carried(self, limit: Amounts) -> Amounts:
        """How `live` shows this limit."""
        return limit


class QosLimit(LimitCarrier):
    """A limit on all jobs of a QOS of the site."""

    mechanism = QOS

    def live(self) -> Amounts:
        """GrpTRES of the QOS in slurmctld's memory; takes 9 ms and does not ask slurmdbd."""
        asked = ("scontrol", "-o", "show", "assoc_mgr", f"qos={self.names[0]}", "flags=qos")
        return parse_live(self.commands.read(asked), self.names[0], self.resources)

    def stored(self) -> Amounts:
        """GrpTRES of the QOS in the database, by `sacctmgr`."""
        wanted = ("show", "qos", "where", f"name={self.names[0]}", "format=Name,GrpTRES")
        text = self._sacctmgr((*SACCTMGR, *wanted))
        for line in text.splitlines():
            name, bar, limits = line.partition("|")
            if not bar:
                raise not_understood("sacctmgr", line)
            if name.lower() == self.names[0].lower():
                found = parse_tres(limits)
                amounts = (found.get(TRES[each]) for each in self.resources)
                return tuple(None if amount is None else int(amount) for amount in amounts)
        raise no_such_qos(self.names[0])

    def write(self, limit: Amounts) -> None:
        """Set GrpTRES by `sacctmgr`, a transaction of the database even for the same value."""
        values = ",".join(
            f"{TRES[name]}={-1 if amount is None else amount}"
            for name, amount in zip(self.resources, limit, strict=True)
        )
        command = ("sacctmgr", "-i", "modify", "qos", self.names[0], "set", f"GrpTRES={values}")
        self._sacctmgr(command)

    def _sacctmgr(self, words: tuple[str, ...]) -> str:
        answer = self.commands.call(words)
        if answer.status == 0:
            return answer.output
        printed = answer.errors + answer.output
        if any(phrase in printed for phrase in DENIED_BY_DATABASE):
            raise ChangeRejected(
                f"Slurm denies changing QOS {self.names[0]}: give the user of this daemon "
                "AdminLevel=Administrator (sacctmgr modify user NAME set AdminLevel=Administrator),"
                ' or set [reserve] mechanism = "licenses", for which Operator is enough'
            )
        if "Nothing modified" in printed:
            raise no_such_qos(self.names[0])
        if any(phrase in printed for phrase in NO_DATABASE):
            first = first_line(printed)
            raise BatchSystemUnavailable(f"slurmdbd does not answer ({first}); check slurmdbd")
        raise failure("sacctmgr", printed)


def no_such_qos(name: str) -> NothingCarriesLimit:
    """Make the error for a QOS that Slurm does not know."""
    return NothingCarriesLimit(
        f"Slurm knows no QOS {name}: make it (sacctmgr add qos {name}) and give it to batch jobs, "
        "or correct [reserve] qos"
    )


def parse_live(text: str, name: str, resources: tuple[str, ...]) -> Amounts:
    """The limit in the answer of `scontrol -o show assoc_mgr`."""
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record and record["name"].lower() == name.lower():
            group = _GROUP.search(line)
            found = _LIVE.finditer(group["tres"] if group else "")
            limits = {each["tres"]: each["limit"] for each in found}
            if TRES[CPUS] not in limits:
                raise not_understood("scontrol show assoc_mgr", line)
            return tuple(_live(limits, TRES[each]) for each in resources)
    if "QOS" not in text:
        raise not_understood("scontrol show assoc_mgr", text.strip())
    raise no_such_qos(name)


def _live(limits: Mapping[str, str], tres: str) -> int | None:
    if tres not in limits:
        raise ChangeRejected(
            f"Slurm counts no {tres}: add it to AccountingStorageTRES in slurm.conf and restart "
            "slurmctld, or remove it from [reserve] most_resources"
        )
    return None if limits[tres] == "N" else int(limits[tres])


LICENSES = "licenses"
#: Message of scontrol about an unknown name.
NOT_FOUND = "not found"
#: A reservation of licences without nodes.
_ALONE = ("startTime=now", "duration=infinite", "users=root", "nodecnt=0", "flags=ANY_NODES")
#: Name of a reservation that does not exist.
_MISSING = "slurm-rl-there-is-none"
_HELD = re.compile(r"\bLicenses=(?P<name>[^:\s]+):(?P<count>\d+)(?:\s|$)")
_NO_NODES = re.compile(r"\bNodeCnt=0\b")


class LicenseLimit(LimitCarrier):
    """One licence for each processor, and our reservation that withholds some.

    slurmctld itself saves reservations, so the stored limit is the live one.
    """

    mechanism = LICENSES

    def total(self) -> int:
        """Number of the cluster's licences of this name, withheld ones included."""
        name, known = self.names[0], read_licences(self.commands.read)
        if name in known:
            return known[name][0]
        raise ChangeRejected(
            f"Slurm knows no licence {name}: add Licenses={name}:N to slurm.conf, where N is the "
            "number of the cluster's processors, or correct [reserve] license"
        )

    def live(self) -> Amounts:
        """The licences that our reservation leaves to jobs; None if it does not exist."""
        held = self._held()
        return (None if held is None else max(self.total() - held, 0),)

    def write(self, limit: Amounts) -> None:
        """Create, resize or delete the reservation so that it leaves this limit to jobs."""
        (left,) = limit
        named = f"reservation={self.names[1]}"
        held = self._held()
        if left is None:
            if held is not None:
                self._scontrol(("scontrol", "delete", named))
            return
        wanted = f"licenses={self.names[0]}:{self.total() - left}"
        if held is None:
            self._scontrol(("scontrol", "create", named, *_ALONE, wanted))
        else:
            self._scontrol(("scontrol", "update", named, wanted))

    def site_own(self, found: Amounts) -> Amounts:
        """No limit: a reservation of this name is ours, left by an earlier run."""
        del found
        return (None,)

    def as_carried(self, limit: Amounts) -> Amounts:
        """The limit, or None if it withholds no licence."""
        (left,) = limit
        return limit if left is not None and left < self.total() else (None,)

    def try_right(self) -> None:
        """Delete a missing reservation: Slurm checks the right first."""
        self._scontrol(("scontrol", "delete", f"reservation={_MISSING}"), must_succeed=False)

    def _held(self) -> int | None:
        words = ("scontrol", "-o", "show", "reservation", self.names[1])
        answer = self.commands.call(words)
        if answer.status:
            printed = answer.errors + answer.output
            if NOT_FOUND in printed:
                return None
            raise failure("scontrol", printed)
        found = _HELD.search(answer.output)
        if found is None or found["name"] != self.names[0] or not _NO_NODES.search(answer.output):
            raise ChangeRejected(
                f"reservation {self.names[1]} is not the daemon's: it holds more than "
                f"{self.names[0]} licences; set another name in [reserve] reservation"
            )
        return int(found["count"])

    def _scontrol(self, words: tuple[str, ...], *, must_succeed: bool = True) -> None:
        answer = self.commands.call(words)
        printed = answer.errors + answer.output
        if NO_RIGHT in printed or DENIED in printed:
            raise ChangeRejected(
                "Slurm denies a reservation of licences: give the user of this daemon "
                "AdminLevel=Operator (sacctmgr modify user NAME set AdminLevel=Operator)"
            )
        error = failure("scontrol", printed)
        if answer.status and (must_succeed or isinstance(error, BatchSystemUnavailable)):
            raise error


logger = logging.getLogger(__name__)
#: Seconds in which slurmctld must show a change of slurmdbd (0.1 s observed), and between reads.
_SHOWN_WITHIN, _PAUSE = 3.0, 0.05
#: Seconds before the stored limit is read again, since a killed daemon's change takes 0.4 s.
_SETTLES, _RESTORE_TRIES = 1.0, 4


class SlurmBatchLimit:
    """Sets and removes our limit, and keeps the site's own in a file.

    Without a mechanism nothing is limited, and an outstanding limit is removed.
    """

    def __init__(self, commands: CommandRunner, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._limit = limit
        self._file = KeptRecord(path, BY_HAND)
        #: Mechanism and names of each carrier that we may have limited, even if now off.
        self._configured = (
            frozenset((each, names_of(limit, each)) for each in (QOS, LICENSES))
            if limit.is_known
            else None
        )

    def go_on_from(self, earlier: SlurmBatchLimit) -> None:
        """Remove, after a reload, also limits of the earlier configuration."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, amounts: Mapping[str, int]) -> None:
        """Let batch jobs use no more than this; a lower limit of the site's own stays."""
        carrier = carrier_as_configured(self._commands, self._limit)
        asked = tuple(amounts.get(name) for name in carrier.resources)
        kept = self._file.read(_parsed)
        own = (carrier.mechanism, carrier.names, carrier.resources)
        if kept is not None and (kept.mechanism, kept.names, kept.resources) != own:
            self.take_back()
            kept = None
        live = carrier.live()
        if _is_set(asked, kept, carrier, live):
            return  # the common case: one cheap query
        unlimited = parse_settings(self._commands.read(SHOW_CONFIG)).unlimited
        if carrier.mechanism == QOS and unlimited is not None:
            self.take_back()
            raise ChangeRejected(unlimited)
        stored = live if kept is not None and live in kept.ours else carrier.stored()
        kept = _after_changes_by_hand(kept, carrier, stored)
        wanted = carrier.as_carried(lower(asked, kept.own))
        if wanted == kept.own:
            self._restore(carrier, kept)
            return
        self._file.write(
            record_of(replace(kept, ours=tuple({*kept.ours, wanted}), confirmed=False))
        )
        try:
            carrier.write(wanted)
        except ChangeRejected:  # the limit is as before
            self._file.write(record_of(kept) if kept.ours else None)
            raise
        _wait_until_shown(carrier, wanted)
        self._file.write(record_of(replace(kept, ours=(wanted,), confirmed=True)))
        limits = limit_words(carrier.resources, wanted), limit_words(carrier.resources, kept.own)
        logger.info("batch_limit=%s own=%s by=%s", *limits, carrier.mechanism)

    def take_back(self) -> None:
        """Restore the site's own limit, also if the configuration has changed."""
        kept = self._file.read(_parsed)
        if kept is not None:
            if (
                self._configured is not None
                and (kept.mechanism, kept.names) not in self._configured
            ):
                key = "qos" if kept.mechanism == QOS else "license and reservation"
                raise self._file.of_others(" ".join(kept.names), key)
            carrier = carrier_of(self._commands, kept.mechanism, kept.names, kept.resources)
            try:
                stored = carrier.stored()
            except NothingCarriesLimit:
                self._forget_with(carrier)
            else:
                self._restore(carrier, _after_changes_by_hand(kept, carrier, stored))

    def _forget_with(self, carrier: LimitCarrier) -> None:
        """Remove the record, since the site has removed the carrier."""
        with suppress(NothingCarriesLimit):
            carrier.live()
            raise BatchSystemUnavailable(
                f"slurmctld enforces {' '.join(carrier.names)}, which slurmdbd does not have; "
                "check slurmdbd"
            )
        self._file.write(None)
        logger.warning("batch_limit=gone with=%s", " ".join(carrier.names))

    def _restore(self, carrier: LimitCarrier, kept: OutstandingLimit) -> None:
        """Write the site's own limit until it is stored and slurmctld enforces it."""
        for attempt in range(_RESTORE_TRIES):
            if attempt and not kept.confirmed:
                time.sleep(_SETTLES)  # a killed daemon's command may still run
            if carrier.stored() != kept.own:
                carrier.write(kept.own)
            elif attempt or kept.confirmed:
                break
        if not _is_shown(carrier, kept.own):
            carrier.write(kept.own)  # slurmdbd did not notify slurmctld
            _wait_until_shown(carrier, kept.own)
        self._file.write(None)
        own = limit_words(carrier.resources, kept.own)
        logger.info("batch_limit=taken_back own=%s by=%s", own, carrier.mechanism)


def names_of(limit: LimitKeys, mechanism: str) -> tuple[str, ...]:
    """Names of the carrier: the QOS, or the licence and the reservation."""
    return (limit.qos,) if mechanism == QOS else (limit.license, limit.reservation)


def keeps_back(limit: LimitKeys, row: QueueRow) -> bool:
    """Whether a job may wait for this limit; Slurm does not say which licence a job lacks."""
    if limit.mechanism == QOS:
        return row.reason in QOS_IS_FULL and row.qos == limit.qos
    return limit.mechanism == LICENSES and row.reason == NO_LICENSES


def carrier_as_configured(commands: CommandRunner, limit: LimitKeys) -> LimitCarrier:
    """The carrier of the configuration."""
    names = names_of(limit, limit.mechanism or "")
    return carrier_of(commands, limit.mechanism or "", names, (CPUS, *limit.resources))


def carrier_of(
    commands: CommandRunner, mechanism: str, names: tuple[str, ...], resources: tuple[str, ...]
) -> LimitCarrier:
    """The carrier with these names for a limit of these resources.

    ConfigurationError for a mechanism of another batch system.
    """
    if mechanism == QOS and len(names) == 1:
        return QosLimit(commands, names, resources)
    if mechanism == LICENSES and len(names) == 2 and resources == (CPUS,):
        return LicenseLimit(commands, names)
    raise ConfigurationError(
        f"a limit by {mechanism or 'nothing'} is not for Slurm: set [reserve] mechanism to qos or "
        "licenses, and restore an outstanding limit with the configuration that set it."
    )


def limit_words(resources: tuple[str, ...], amounts: Amounts) -> str:
    """A limit for one line, such as `5` (processors) or `5,gpus=2`."""
    named = zip(resources, amounts, strict=True)
    return ",".join(str(each) if name == CPUS else f"{name}={each}" for name, each in named)


def _is_set(
    asked: Amounts, kept: OutstandingLimit | None, carrier: LimitCarrier, live: Amounts
) -> bool:
    """Whether slurmctld enforces our present limit, or the site's own alone and it is as low."""
    if kept is None:
        own = carrier.site_own(live)
        return lower(asked, own) == own
    return live == lower(asked, kept.own) and live in kept.ours


def _after_changes_by_hand(
    kept: OutstandingLimit | None, carrier: LimitCarrier, stored: Amounts
) -> OutstandingLimit:
    """The record, whose site's own limit is a stored one that is neither ours nor the former."""
    if kept is None:
        return OutstandingLimit(
            mechanism=carrier.mechanism,
            names=carrier.names,
            resources=carrier.resources,
            own=carrier.site_own(stored),
            confirmed=True,  # we have no change in progress
        )
    if stored == kept.own or stored in kept.ours:
        return kept
    found = limit_words(carrier.resources, stored)
    logger.warning("batch_limit=%s was set by hand: it is the site's own from now on", found)
    return replace(kept, own=carrier.site_own(stored), ours=())


def _wait_until_shown(carrier: LimitCarrier, wanted: Amounts) -> None:
    if not _is_shown(carrier, wanted):
        raise BatchSystemUnavailable(
            f"slurmctld does not show the limit {limit_words(carrier.resources, wanted)} within "
            f"{_SHOWN_WITHIN:g} s; check slurmdbd and slurmctld"
        )


def _is_shown(carrier: LimitCarrier, wanted: Amounts) -> bool:
    end = time.monotonic() + _SHOWN_WITHIN
    while carrier.live() != wanted:
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE)
    return True
