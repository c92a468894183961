"""The limit as a reservation of licences that batch jobs ask for, one a processor.

For daemons that are Operator only. The reservation is ours alone, known by its name: it holds the
licences that batch jobs are not to have.
"""

from __future__ import annotations

import re

from slurm_rl_plugin.batch_systems.limit_file import Amounts
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure
from slurm_rl_plugin.batch_systems.slurm.writes import DENIED, NO_RIGHT
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.errors import ChangeRejected

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


class LicenseLimit:
    """One kind of licence and our reservation of it; see `LimitCarrier`."""

    mechanism = LICENSES

    def __init__(self, commands: CommandRunner, name: str, reservation: str) -> None:
        self._commands = commands
        self._name = name
        self._reservation = reservation

    @property
    def names(self) -> tuple[str, ...]:
        """The licence's name, then the reservation's."""
        return (self._name, self._reservation)

    def total(self) -> int:
        """How many licences of this name the cluster has, withheld ones included.

        Raises:
            BatchSystemError: they cannot be read.
            ChangeRejected: Slurm knows no such licence.
        """
        text = self._commands.read(("scontrol", "-o", "show", "licenses"))
        for found in _TOTAL.finditer(text):
            if found["name"] == self._name:
                return int(found["total"])
        raise ChangeRejected(
            f"Slurm knows no licence {self._name}: add Licenses={self._name}:N to slurm.conf, N "
            "being the processors of the cluster, or correct [reserve] license"
        )

    @property
    def resources(self) -> tuple[str, ...]:
        """Processors alone: a licence stands for one."""
        return (CPUS,)

    def live(self) -> Amounts:
        """The licences that our reservation leaves to jobs; None where it does not exist."""
        held = self._held()
        return (None if held is None else max(self.total() - held, 0),)

    def stored(self) -> Amounts:
        """The same as `live`: slurmctld saves reservations itself."""
        return self.live()

    def write(self, limit: Amounts) -> None:
        """Create, resize or delete the reservation, so that so many licences are left to jobs."""
        (left,) = limit
        named = f"reservation={self._reservation}"
        held = self._held()
        if left is None:
            if held is not None:
                self._scontrol(("scontrol", "delete", named))
            return
        wanted = f"licenses={self._name}:{self.total() - left}"
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
        """Ask for a change of a reservation that cannot be: who may not is told so first.

        Raises:
            ChangeRejected: the right is missing.
        """
        answer = self._commands.call(("scontrol", "delete", f"reservation={_NOBODYS}"))
        said = answer.errors + answer.output
        if _denied(said):
            raise _no_right()

    def _held(self) -> int | None:
        """Licences in our reservation; None where there is none."""
        words = ("scontrol", "-o", "show", "reservation", self._reservation)
        answer = self._commands.call(words)
        said = answer.errors + answer.output
        if answer.status:
            if NOT_FOUND in said:
                return None
            raise failure("scontrol", said)
        found = _HELD.search(answer.output)
        if found is None or found["name"] != self._name or not _NO_NODES.search(answer.output):
            raise ChangeRejected(
                f"reservation {self._reservation} is not ours: it holds more than {self._name} "
                "licences; give another name in [reserve] reservation"
            )
        return int(found["count"])

    def _scontrol(self, words: tuple[str, ...]) -> None:
        answer = self._commands.call(words)
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
