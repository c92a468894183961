"""What takes factors back where `slurm-rl release` itself cannot: its own commands."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS


def taken_back_by_hand(environment: Mapping[str, str]) -> str:
    """The line of the batch system that is on this host; of each where that is not known.

    Args:
        environment: PATH, and what names a batch system's configuration.
    """
    known = list(BATCH_SYSTEMS.values())
    here = [kind for kind in known if kind.presence(environment).is_here] or known
    if len(here) == 1:
        return f"`{here[0].by_hand}`"
    return " or ".join(f"`{kind.by_hand}` ({kind.title})" for kind in here)
