"""Makes the adapter for OpenPBS of what the site configures."""

from __future__ import annotations

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.adapter_settings import PbsAdapterSettings, heartbeat_file
from slurm_rl_plugin.batch_systems.pbs.batch_limit import MAX_RUN_RES
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs


def pbs_batch_system(parts: AdapterParts) -> Pbs:
    """The adapter."""
    limit = parts.limit
    return Pbs(
        PbsAdapterSettings(
            shares=parts.shares,
            interactive=parts.interactive,
            clock=parts.clock,
            timeout=parts.timeout,
            environment=parts.environment,
            on_call=parts.on_call,
            heartbeat=heartbeat_file(parts.state_file),
            history_days=parts.history_days,
            batch_queues=limit.queues if limit.mechanism == MAX_RUN_RES else (),
            limits_file=parts.limits_file,
            limit_queues=frozenset(limit.queues) if limit.is_known else None,
        )
    )
