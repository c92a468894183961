"""The limit as GrpTRES, such as cpu=N,gres/gpu=M, of the QOS that batch jobs have.

Of GrpTRES only what is to be limited is written, so limits of other resources stay as they are (run
on 22.05 to 26.05). Memory is written and shown in MiB, exactly.
Running jobs go on. The value lies in the database: it outlives slurmctld, slurmdbd and us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_rl_plugin.accounting.slurm.resources import parse_tres
from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.limit_file import Amounts
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, NothingCarriesLimit

QOS = "qos"
SACCTMGR = ("sacctmgr", "--noheader", "--parsable2")
#: What sacctmgr says to who is no Administrator.
DENIED = ("have privilege", "Access/permission denied", "Invalid user id")
#: What it says where slurmdbd does not answer.
NO_DATABASE = ("persistent connection", "PersistInit", "talking to the database", "dbd")
_RECORD = re.compile(r"^QOS=(?P<name>[^(\s]+)\(", re.MULTILINE)
_GROUP = re.compile(r"\bGrpTRES=(?P<tres>\S*)")
_LIVE = re.compile(r"(?:^|,)(?P<tres>[^=,]+)=(?P<limit>N|\d+)\(\d+\)")
#: What Slurm calls the resources that a QOS can limit.
TRES = {CPUS: "cpu", MEMORY: "mem", GPUS: "gres/gpu"}


class QosLimit:
    """One QOS and what its jobs may use together; see `LimitCarrier`."""

    mechanism = QOS

    def __init__(
        self, commands: CommandRunner, name: str, resources: tuple[str, ...] = (CPUS,)
    ) -> None:
        self._commands = commands
        self._name = name
        self._resources = resources

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the QOS, alone."""
        return (self._name,)

    @property
    def resources(self) -> tuple[str, ...]:
        """Keys of TRES."""
        return self._resources

    def live(self) -> Amounts:
        """GrpTRES of the QOS in slurmctld's memory; takes 9 ms, and slurmdbd is not asked."""
        asked = ("scontrol", "-o", "show", "assoc_mgr", f"qos={self._name}", "flags=qos")
        return parse_live(self._commands.read(asked), self._name, self._resources)

    def stored(self) -> Amounts:
        """GrpTRES of the QOS in the database, by `sacctmgr`."""
        wanted = ("show", "qos", "where", f"name={self._name}", "format=Name,GrpTRES")
        text = self._sacctmgr((*SACCTMGR, *wanted))
        for line in text.splitlines():
            name, bar, limits = line.partition("|")
            if not bar:
                raise not_understood("sacctmgr", line)
            if name.lower() == self._name.lower():
                found = parse_tres(limits)
                return tuple(_whole(found.get(TRES[each])) for each in self._resources)
        raise no_such_qos(self._name)

    def write(self, limit: Amounts) -> None:
        """Set GrpTRES by `sacctmgr`: a transaction of the database, also for the same value."""
        values = (
            f"{TRES[name]}={-1 if amount is None else amount}"
            for name, amount in zip(self._resources, limit, strict=True)
        )
        said = f"GrpTRES={','.join(values)}"
        self._sacctmgr(("sacctmgr", "-i", "modify", "qos", self._name, "set", said))

    def site_own(self, found: Amounts) -> Amounts:
        """All of what was found: the QOS is the site's, and so is its limit."""
        return found

    def as_carried(self, limit: Amounts) -> Amounts:
        """The limit itself: a QOS shows any number as it was given."""
        return limit

    def _sacctmgr(self, words: tuple[str, ...]) -> str:
        answer = self._commands.call(words)
        if answer.status == 0:
            return answer.output
        said = answer.errors + answer.output
        if any(phrase in said for phrase in DENIED):
            raise ChangeRejected(
                f"Slurm denies changing QOS {self._name}: give the user of this daemon "
                "AdminLevel=Administrator (sacctmgr modify user NAME set AdminLevel=Administrator),"
                ' or set [reserve] mechanism = "licenses", for which Operator is enough'
            )
        if "Nothing modified" in said:
            raise no_such_qos(self._name)
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
    """The limit in the answer of `scontrol -o show assoc_mgr`.

    Args:
        text: the answer.
        name: of the QOS.
        resources: keys of TRES.

    Raises:
        ChangeRejected: slurmctld knows no such QOS, or does not count a resource.
        BatchSystemError: an answer of another form.
    """
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
