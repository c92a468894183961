"""Which host's daemon has to act, where a cluster has several controllers with a daemon each."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.port import SchedulerFacts
from slurm_rl_plugin.errors import BatchSystemUnavailable

NO_CONTROLLER_HERE = (
    "beside_controllers is set, but slurm.conf names no controller as this host is named: give "
    "SlurmctldHost the name that `hostname -s` says, or run one daemon without beside_controllers."
)
NOBODY_IN_CHARGE = (
    "no controller answered the ping of its own cluster, so which one is in charge cannot be told; "
    "look with `scontrol ping`"
)


@dataclass(frozen=True, slots=True)
class Charge:
    """Tells who has to act; a daemon that is alone always has.

    Attributes:
        beside_controllers: act only where the controller in charge is on this host.
    """

    beside_controllers: bool

    def is_anothers(self, facts: SchedulerFacts) -> bool:
        """Whether another host's daemon has to act.

        Raises:
            BatchSystemUnavailable: it cannot be told.
        """
        if not self.beside_controllers:
            return False
        if facts.in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        return not facts.in_charge

    def fault(self, facts: SchedulerFacts) -> str | None:
        """Why a daemon cannot be beside a controller here, one sentence; None where it can."""
        if not self.beside_controllers:
            return None
        if facts.traits.alone is not None:
            return f"{facts.traits.alone}."
        return None if facts.controller_here else NO_CONTROLLER_HERE

    def harm(self, facts: SchedulerFacts) -> str | None:
        """Why nothing may be written at all, one sentence; None where it may."""
        # two daemons that are at fault would undo each other's order
        return self.fault(facts) or facts.harm
