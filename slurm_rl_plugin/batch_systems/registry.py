"""Every batch system by name: a new one is its folder and a line here.

The configuration and the way out ask for the names, so no adapter is imported before it is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.batch_systems.kind import BatchSystemKind
from slurm_rl_plugin.batch_systems.pbs.kind import PBS
from slurm_rl_plugin.batch_systems.slurm.kind import SLURM

#: The first is taken where none is configured and none other is here.
BATCH_SYSTEMS: Mapping[str, BatchSystemKind] = {
    SLURM.name: SLURM,
    PBS.name: PBS,
}
#: As [batch_system] adapter: the one that is here.
AUTO = "auto"
#: What [batch_system] adapter may be otherwise, each with the batch system that it reaches.
ADAPTERS: Mapping[str, BatchSystemKind] = {
    adapter: kind for kind in BATCH_SYSTEMS.values() for adapter in kind.adapters
}
#: Mechanism of [reserve] -> keys that it needs beside how much is kept free.
LIMITS: Mapping[str, tuple[str, ...]] = {
    mechanism: keys for kind in BATCH_SYSTEMS.values() for mechanism, keys in kind.limits.items()
}
#: Those that limit other resources than processors too.
LIMITS_OF_RESOURCES: frozenset[str] = frozenset().union(
    *(kind.limit_resources for kind in BATCH_SYSTEMS.values())
)
