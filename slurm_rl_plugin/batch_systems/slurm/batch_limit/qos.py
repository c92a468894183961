"""The limit as GrpTRES=cpu=N of the QOS that batch jobs have.

Only the cpu of GrpTRES is written, so limits of other resources stay as they are (run on 22.05).
Running jobs go on. The value lies in the database: it outlives slurmctld, slurmdbd and us.
"""

from __future__ import annotations

import re

from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, NothingCarriesLimit

QOS = "qos"
SACCTMGR = ("sacctmgr", "--noheader", "--parsable2")
#: What sacctmgr says to who is no Administrator.
DENIED = ("have privilege", "Access/permission denied", "Invalid user id")
#: What it says where slurmdbd does not answer.
NO_DATABASE = ("persistent connection", "PersistInit", "talking to the database", "dbd")
_RECORD = re.compile(r"^QOS=(?P<name>[^(\s]+)\(", re.MULTILINE)
_GROUP = re.compile(r"\bGrpTRES=(?P<tres>\S*)")
_LIVE_CPU = re.compile(r"(?:^|,)cpu=(?P<limit>N|\d+)\(\d+\)")
_STORED_CPU = re.compile(r"(?:^|,)cpu=(?P<limit>\d+)")


class QosLimit:
    """One QOS and the processors that its jobs may use together; see `LimitCarrier`."""

    mechanism = QOS

    def __init__(self, commands: CommandRunner, name: str) -> None:
        self._commands = commands
        self._name = name

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the QOS, alone."""
        return (self._name,)

    def live(self) -> int | None:
        """GrpTRES=cpu of the QOS in slurmctld's memory; takes 9 ms, and slurmdbd is not asked."""
        asked = ("scontrol", "-o", "show", "assoc_mgr", f"qos={self._name}", "flags=qos")
        return parse_live(self._commands.read(asked), self._name)

    def stored(self) -> int | None:
        """GrpTRES=cpu of the QOS in the database, by `sacctmgr`."""
        wanted = ("show", "qos", "where", f"name={self._name}", "format=Name,GrpTRES")
        text = self._sacctmgr((*SACCTMGR, *wanted))
        for line in text.splitlines():
            name, bar, limits = line.partition("|")
            if not bar:
                raise not_understood("sacctmgr", line)
            if name.lower() == self._name.lower():
                found = _STORED_CPU.search(limits)
                return int(found["limit"]) if found else None
        raise no_such_qos(self._name)

    def write(self, limit: int | None) -> None:
        """Set GrpTRES=cpu by `sacctmgr`: a transaction of the database, also for the same value."""
        value = f"GrpTRES=cpu={-1 if limit is None else limit}"
        self._sacctmgr(("sacctmgr", "-i", "modify", "qos", self._name, "set", value))

    def site_own(self, found: int | None) -> int | None:
        """All of what was found: the QOS is the site's, and so is its limit."""
        return found

    def as_carried(self, limit: int) -> int | None:
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


def parse_live(text: str, name: str) -> int | None:
    """The limit in the answer of `scontrol -o show assoc_mgr`; None for none.

    Raises:
        ChangeRejected: slurmctld knows no such QOS.
        BatchSystemError: an answer of another form.
    """
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record and record["name"].lower() == name.lower():
            group = _GROUP.search(line)
            cpu = _LIVE_CPU.search(group["tres"]) if group else None
            if cpu is None:
                raise not_understood("scontrol show assoc_mgr", line)
            return None if cpu["limit"] == "N" else int(cpu["limit"])
    if "QOS" not in text:
        raise not_understood("scontrol show assoc_mgr", text.strip()[:200])
    raise no_such_qos(name)
