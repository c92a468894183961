"""What is said where it cannot be told which controller's daemon has to act."""

from __future__ import annotations

NO_CONTROLLER_HERE = (
    "beside_controllers is set, but slurm.conf names no controller as this host is named: give "
    "SlurmctldHost the name that `hostname -s` says, or run one daemon without beside_controllers."
)
NOBODY_IN_CHARGE = (
    "no controller answered the ping of its own cluster, so which one is in charge cannot be told; "
    "look with `scontrol ping`"
)
