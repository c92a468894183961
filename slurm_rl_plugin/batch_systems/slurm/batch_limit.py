"""A limit on what batch jobs use together, by a QOS or by licences: set, read back, given back.

By a QOS it is GrpTRES, such as cpu=N,gres/gpu=M. Only what is to be limited is written, so limits
of other resources stay as they are (run on 22.05 to 26.05). Memory is written and shown in MiB.
Running jobs go on. The value lies in the database: it outlives slurmctld, slurmdbd and us.
For daemons that are Operator only there is a reservation of the licences that batch jobs ask for.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from slurm_rl_plugin.accounting.slurm.resources import parse_tres
from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.kept_record import Amounts, LimitFile, StandingLimit, lower
from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import NO_LICENSES, QOS_IS_FULL
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.site_factor import DENIED, NO_RIGHT
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
    NothingCarriesLimit,
)

QOS = "qos"
SACCTMGR = ("sacctmgr", "--noheader", "--parsable2")
#: What sacctmgr says to who is no Administrator.
DENIED_BY_DATABASE = ("have privilege", "Access/permission denied", "Invalid user id")
#: What it says where slurmdbd does not answer.
NO_DATABASE = ("persistent connection", "PersistInit", "talking to the database", "dbd")
_RECORD = re.compile(r"^QOS=(?P<name>[^(\s]+)\(", re.MULTILINE)
_GROUP = re.compile(r"\bGrpTRES=(?P<tres>\S*)")
_LIVE = re.compile(r"(?:^|,)(?P<tres>[^=,]+)=(?P<limit>N|\d+)\(\d+\)")
#: What Slurm calls the resources that a QOS can limit.
TRES = {CPUS: "cpu", MEMORY: "mem", GPUS: "gres/gpu"}


@dataclass(frozen=True, slots=True)
class LimitCarrier:
    """What of Slurm's carries a limit on what batch jobs may use together."""

    mechanism: ClassVar[str]  #: as in [reserve] mechanism
    commands: CommandRunner
    names: tuple[str, ...]  #: of the QOS, or of the licence and the reservation
    resources: tuple[str, ...] = (CPUS,)  #: every limit is in this order

    def live(self) -> Amounts:
        """The limit that slurmctld enforces; ChangeRejected where nothing could carry one."""
        raise NotImplementedError

    def stored(self) -> Amounts:
        """The limit that a restart of slurmctld would find."""
        return self.live()

    def write(self, limit: Amounts) -> None:
        """Set the limit; where it has None there is none afterwards."""
        raise NotImplementedError

    def site_own(self, found: Amounts) -> Amounts:
        """Which part of a limit that was there before us is the site's own."""
        return found

    def as_carried(self, limit: Amounts) -> Amounts:
        """What it would show for this limit."""
        return limit


class QosLimit(LimitCarrier):
    """One QOS, which is the site's, and what its jobs may use together."""

    mechanism = QOS

    def live(self) -> Amounts:
        """GrpTRES of the QOS in slurmctld's memory; takes 9 ms, and slurmdbd is not asked."""
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
                return tuple(_whole(found.get(TRES[each])) for each in self.resources)
        raise no_such_qos(self.names[0])

    def write(self, limit: Amounts) -> None:
        """Set GrpTRES by `sacctmgr`: a transaction of the database, also for the same value."""
        values = (
            f"{TRES[name]}={-1 if amount is None else amount}"
            for name, amount in zip(self.resources, limit, strict=True)
        )
        said = f"GrpTRES={','.join(values)}"
        self._sacctmgr(("sacctmgr", "-i", "modify", "qos", self.names[0], "set", said))

    def _sacctmgr(self, words: tuple[str, ...]) -> str:
        answer = self.commands.call(words)
        if answer.status == 0:
            return answer.output
        said = answer.errors + answer.output
        if any(phrase in said for phrase in DENIED_BY_DATABASE):
            raise ChangeRejected(
                f"Slurm denies changing QOS {self.names[0]}: give the user of this daemon "
                "AdminLevel=Administrator (sacctmgr modify user NAME set AdminLevel=Administrator),"
                ' or set [reserve] mechanism = "licenses", for which Operator is enough'
            )
        if "Nothing modified" in said:
            raise no_such_qos(self.names[0])
        if any(phrase in said for phrase in NO_DATABASE):
            first = first_line(said)
            raise BatchSystemUnavailable(f"slurmdbd does not answer ({first}); check slurmdbd")
        raise failure("sacctmgr", said)


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
            told = (
                {each["tres"]: each["limit"] for each in _LIVE.finditer(group["tres"])}
                if group
                else {}
            )
            if TRES[CPUS] not in told:
                raise not_understood("scontrol show assoc_mgr", line)
            return tuple(_live(told, TRES[each]) for each in resources)
    if "QOS" not in text:
        raise not_understood("scontrol show assoc_mgr", text.strip()[:200])
    raise no_such_qos(name)


def _live(told: Mapping[str, str], tres: str) -> int | None:
    if tres not in told:
        raise ChangeRejected(
            f"Slurm counts no {tres}: add it to AccountingStorageTRES in slurm.conf and restart "
            "slurmctld, or take it out of [reserve] most_resources"
        )
    return None if told[tres] == "N" else int(told[tres])


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


LICENSES = "licenses"
#: What scontrol says to a name that it does not know.
NOT_FOUND = "not found"
#: A reservation of licences alone.
_ALONE = ("startTime=now", "duration=infinite", "users=root", "nodecnt=0", "flags=ANY_NODES")
#: A name that nobody gives.
_NOBODYS = "slurm-rl-there-is-none"
_TOTAL = re.compile(r"^LicenseName=(?P<name>\S+)\s+Total=(?P<total>\d+)", re.MULTILINE)
_HELD = re.compile(r"\bLicenses=(?P<name>[^:\s]+):(?P<count>\d+)(?:\s|$)")
_NO_NODES = re.compile(r"\bNodeCnt=0\b")


class LicenseLimit(LimitCarrier):
    """One kind of licence, each for one processor, and our reservation of it.

    slurmctld itself saves reservations, so what is stored is what is live.
    """

    mechanism = LICENSES

    def total(self) -> int:
        """How many licences of this name the cluster has, withheld ones included."""
        text = self.commands.read(("scontrol", "-o", "show", "licenses"))
        for found in _TOTAL.finditer(text):
            if found["name"] == self.names[0]:
                return int(found["total"])
        name = self.names[0]
        raise ChangeRejected(
            f"Slurm knows no licence {name}: add Licenses={name}:N to slurm.conf, N being the "
            "processors of the cluster, or correct [reserve] license"
        )

    def live(self) -> Amounts:
        """The licences that our reservation leaves to jobs; None where it does not exist."""
        held = self._held()
        return (None if held is None else max(self.total() - held, 0),)

    def write(self, limit: Amounts) -> None:
        """Create, resize or delete the reservation, so that so many licences are left to jobs."""
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
        """The limit itself; none where it withholds no licence."""
        (left,) = limit
        return limit if left is not None and left < self.total() else (None,)

    def try_right(self) -> None:
        """Ask for a change of a reservation that cannot be: who may not is told so first."""
        answer = self.commands.call(("scontrol", "delete", f"reservation={_NOBODYS}"))
        said = answer.errors + answer.output
        if _denied(said):
            raise _no_right()

    def _held(self) -> int | None:
        """Licences in our reservation; None where there is none."""
        words = ("scontrol", "-o", "show", "reservation", self.names[1])
        answer = self.commands.call(words)
        said = answer.errors + answer.output
        if answer.status:
            if NOT_FOUND in said:
                return None
            raise failure("scontrol", said)
        found = _HELD.search(answer.output)
        if found is None or found["name"] != self.names[0] or not _NO_NODES.search(answer.output):
            raise ChangeRejected(
                f"reservation {self.names[1]} is not ours: it holds more than {self.names[0]} "
                "licences; give another name in [reserve] reservation"
            )
        return int(found["count"])

    def _scontrol(self, words: tuple[str, ...]) -> None:
        answer = self.commands.call(words)
        if answer.status == 0:
            return
        said = answer.errors + answer.output
        raise _no_right() if _denied(said) else failure("scontrol", said)


def _denied(said: str) -> bool:
    return NO_RIGHT in said or DENIED in said


def _no_right() -> ChangeRejected:
    return ChangeRejected(
        "Slurm denies a reservation of licences: give the user of this daemon AdminLevel=Operator "
        "(sacctmgr modify user NAME set AdminLevel=Operator)"
    )


logger = logging.getLogger(__name__)
#: slurmdbd tells slurmctld of a change; observed within 0.1 s.
_SHOWN_WITHIN, _PAUSE = 3.0, 0.05
#: Seconds waited before the last look at what is stored: a killed daemon's change takes 0.4 s.
_SETTLES, _RESTORE_TRIES = 1.0, 4


class SlurmBatchLimit:
    """Sets and takes back the limit, and remembers in a file what was there before.

    Without a mechanism to carry it nothing is limited, and what still stands is taken back.
    """

    def __init__(self, commands: CommandRunner, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._limit = limit
        self._file = LimitFile(path)
        #: Mechanism and names of every limit that may be ours, also while the mechanism is off.
        self._configured = (
            frozenset((each, names_of(limit, each)) for each in (QOS, LICENSES))
            if limit.is_known
            else None
        )

    def go_on_from(self, earlier: SlurmBatchLimit) -> None:
        """What was ours to set before a reload is ours to take back after it."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, amounts: Mapping[str, int]) -> None:
        """Let batch jobs use no more than this; a lower limit of the site's own stays."""
        carrier = self._carrier()
        asked = tuple(amounts.get(name) for name in carrier.resources)
        standing = self._file.read()
        if standing is not None and not _is_of(standing, carrier):
            self.take_back()
            standing = None
        live = carrier.live()
        if _stands_already(asked, standing, carrier, live):
            return  # the common case: one cheap question
        self._refuse_without_enforcement(carrier)
        ours_shows = standing is not None and live in standing.ours
        stored = live if ours_shows else carrier.stored()
        standing = _after_changes_by_hand(standing, carrier, stored)
        wanted = carrier.as_carried(lower(asked, standing.own))
        if wanted == standing.own:
            self._restore(carrier, standing)
            return
        self._file.write(replace(standing, ours=standing.ours | {wanted}, confirmed=False))
        try:
            carrier.write(wanted)
        except ChangeRejected:  # as before, or nothing of ours
            self._file.write(standing) if standing.ours else self._file.remove()
            raise
        _wait_until_shown(carrier, wanted)
        self._file.write(replace(standing, ours=frozenset({wanted}), confirmed=True))
        said = limit_words(carrier.resources, wanted), limit_words(carrier.resources, standing.own)
        logger.info("batch_limit=%s own=%s by=%s", *said, carrier.mechanism)

    def take_back(self) -> None:
        """Give the site's own limit back, whatever the configuration says now."""
        standing = self._file.read()
        if standing is not None:
            self._refuse_strangers(standing)
            kept = standing.mechanism, standing.names, standing.resources
            carrier = carrier_of(self._commands, *kept)
            try:
                stored = carrier.stored()
            except NothingCarriesLimit:
                self._forget_with(carrier)
            else:
                self._restore(carrier, _after_changes_by_hand(standing, carrier, stored))

    def _refuse_strangers(self, standing: StandingLimit) -> None:
        """Refuse a file with other names: who writes it must not choose what Slurm is told."""
        named = (standing.mechanism, standing.names)
        if self._configured is not None and named not in self._configured:
            what = " ".join(standing.names)
            key = "qos" if standing.mechanism == QOS else "license and reservation"
            raise ConfigurationError(
                f"{self._file.path} names {what}, which is not what [reserve] {key} names, so "
                f"nothing was changed: if the daemon limited {what}, name it there (mechanism may "
                "stay off) and run `slurm-rl release`, else remove the file."
            )

    def _forget_with(self, carrier: LimitCarrier) -> None:
        """Remove the file, where the site has removed what carried our limit."""
        with suppress(NothingCarriesLimit):
            carrier.live()
            raise BatchSystemUnavailable(
                f"slurmctld goes by {' '.join(carrier.names)}, which slurmdbd does not have; check "
                "slurmdbd"
            )
        self._file.remove()
        logger.warning("batch_limit=gone with=%s", " ".join(carrier.names))

    def _restore(self, carrier: LimitCarrier, standing: StandingLimit) -> None:
        """Write what was there before, until it is stored and slurmctld enforces it."""
        for attempt in range(_RESTORE_TRIES):
            if attempt and not standing.confirmed:
                time.sleep(_SETTLES)  # a command of a daemon that was killed may still be at work
            if carrier.stored() != standing.own:
                carrier.write(standing.own)
            elif attempt or standing.confirmed:
                break
        if not _is_shown(carrier, standing.own):
            carrier.write(standing.own)  # slurmctld was not told
            _wait_until_shown(carrier, standing.own)
        self._file.remove()
        own = limit_words(carrier.resources, standing.own)
        logger.info("batch_limit=taken_back own=%s by=%s", own, carrier.mechanism)

    def _refuse_without_enforcement(self, carrier: LimitCarrier) -> None:
        unlimited = parse_settings(self._commands.read(SHOW_CONFIG)).unlimited
        if carrier.mechanism == QOS and unlimited is not None:
            self.take_back()
            raise ChangeRejected(unlimited)

    def _carrier(self) -> LimitCarrier:
        mechanism = self._limit.mechanism
        if mechanism not in (QOS, LICENSES):
            raise ChangeRejected(
                'Slurm limits batch jobs by a QOS or by licences: set [reserve] mechanism = "qos" '
                'or "licenses"'
            )
        return carrier_as_configured(self._commands, self._limit)


def names_of(limit: LimitKeys, mechanism: str) -> tuple[str, ...]:
    """Names of what carries the limit: the QOS, or the licence and the reservation."""
    return (limit.qos,) if mechanism == QOS else (limit.license, limit.reservation)


def keeps_back(limit: LimitKeys, row: QueueRow) -> bool:
    """Whether a job may wait for this limit; whose licences it lacks Slurm does not say."""
    if limit.mechanism == QOS:
        return row.reason in QOS_IS_FULL and row.qos == limit.qos
    return limit.mechanism == LICENSES and row.reason == NO_LICENSES


def carrier_as_configured(commands: CommandRunner, limit: LimitKeys) -> LimitCarrier:
    """What the configuration names to carry a limit."""
    names = names_of(limit, limit.mechanism or "")
    return carrier_of(commands, limit.mechanism or "", names, (CPUS, *limit.resources))


def carrier_of(
    commands: CommandRunner, mechanism: str, names: tuple[str, ...], resources: tuple[str, ...]
) -> LimitCarrier:
    """The QOS or the licences of these names, which carry a limit of these resources."""
    if mechanism == QOS and len(names) == 1:
        return QosLimit(commands, names, resources)
    if mechanism == LICENSES and len(names) == 2 and resources == (CPUS,):
        return LicenseLimit(commands, names)
    raise ConfigurationError(
        f"the site's own limit is kept for mechanism {mechanism!r}, which is not Slurm's: take it "
        "back with the configuration that it was set with."
    )


def limit_words(resources: tuple[str, ...], amounts: Amounts) -> str:
    """A limit for one line: of processors the number alone, as `5` or `5,gpus=2`."""
    named = zip(resources, amounts, strict=True)
    return ",".join(str(each) if name == CPUS else f"{name}={each}" for name, each in named)


def _is_of(standing: StandingLimit, carrier: LimitCarrier) -> bool:
    kept = (standing.mechanism, standing.names, standing.resources)
    return kept == (carrier.mechanism, carrier.names, carrier.resources)


def _stands_already(
    asked: Amounts, standing: StandingLimit | None, carrier: LimitCarrier, live: Amounts
) -> bool:
    """Whether slurmctld enforces our limit of now, or the site's own is as low and all there is."""
    if standing is None:
        own = carrier.site_own(live)
        return lower(asked, own) == own
    return live == lower(asked, standing.own) and live in standing.ours


def _after_changes_by_hand(
    standing: StandingLimit | None, carrier: LimitCarrier, stored: Amounts
) -> StandingLimit:
    """What to keep as the site's own: a limit that is neither ours nor the one of before."""
    if standing is None:
        return StandingLimit(
            mechanism=carrier.mechanism,
            names=carrier.names,
            resources=carrier.resources,
            own=carrier.site_own(stored),
            confirmed=True,  # nothing of ours is under way
        )
    if stored == standing.own or stored in standing.ours:
        return standing
    found = limit_words(carrier.resources, stored)
    logger.warning("batch_limit=%s was set by hand: it is the site's own from now on", found)
    return replace(standing, own=carrier.site_own(stored), ours=frozenset())


def _wait_until_shown(carrier: LimitCarrier, wanted: Amounts) -> None:
    if not _is_shown(carrier, wanted):
        raise BatchSystemUnavailable(
            f"slurmctld does not show the limit {limit_words(carrier.resources, wanted)} within "
            f"{_SHOWN_WITHIN:g} s; "
            "check slurmdbd and slurmctld"
        )


def _is_shown(carrier: LimitCarrier, wanted: Amounts) -> bool:
    end = time.monotonic() + _SHOWN_WITHIN
    while carrier.live() != wanted:
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE)
    return True
