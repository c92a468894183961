"""A site's configuration as the simulator takes it: policies, bounds, influence, reserve."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.recorded_replay import ALWAYS
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.services.configured_site import written_influence
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import HOUR

#: Behind the name of a model: the same order, and no processors kept free.
WITHOUT = "without reserve"
#: Behind the name of a rule that is replayed in any case: the same as the daemon writes it.
WRITTEN = "as written"


def settings_in_force(
    configuration: Configuration, capacity: int, cycle: float = 0.0, *, on_nodes: bool = False
) -> SimulationSettings:
    """EASY, with the order and the limit as the daemon is configured to write them.

    Args:
        configuration: of the site.
        capacity: processors.
        cycle: seconds between decisions of the batch system.
        on_nodes: on the nodes of a machine, as slurmctld looks at its queue.
    """
    return SimulationSettings(
        capacity=capacity,
        backfilling=AS_SLURM if on_nodes else "easy",
        cycle=cycle,
        influence=written_influence(configuration),
        site_points=configuration.cycle_settings.site_points,
        refresh=configuration.pace.longest,
        starvation=configuration.starvation_bound,
        class_limit=_class_limit(configuration.reserve),
        goals=configuration.goals,
    )


def settings_entry(settings: SimulationSettings) -> dict[str, Any]:
    """The `settings` of a study: what acts on the configured policy; null for no bound."""
    finite = {
        "influence_hours": settings.influence,
        "refresh_seconds": settings.refresh,
        "starvation_hours": settings.starvation / HOUR,
    }
    limit = settings.class_limit
    return {
        "backfilling": settings.backfilling,
        **{key: value if math.isfinite(value) else None for key, value in finite.items()},
        "reserve_most": None if limit is None else limit.most,
    }


def _class_limit(reserve: ReserveSettings | None) -> ClassLimit | None:
    """The limit on batch jobs as the daemon would keep it."""
    if reserve is None:
        return None
    return ClassLimit(
        widest_batch_job=reserve.widest_batch_job,
        change_interval=reserve.change_interval,
        lift_after=reserve.lift_after,
        idle_after=reserve.idle_after,
        narrow_first=reserve.narrow_first,
        most=float(reserve.most),
        most_resources=reserve.most_resources,
        widest_batch_resources=reserve.widest_batch_resources,
    )


def policies_in_force(configuration: Configuration) -> dict[str, Candidate]:
    """What reports call it -> the configured policy, and itself without its reserve.

    In the compiled simulator where it can be; a graph of others decision by decision.
    """
    reserve, model = configuration.reserve, configuration.sections.policy.model
    candidate = candidate_of(model, name=Path(model).name)
    named, network = named_policy(model), candidate.network
    name = f"{candidate.name} {WRITTEN}" if candidate.name in ALWAYS else candidate.name
    without, plain = f"{candidate.name} {WITHOUT}", candidate
    if named is not None and named.reserve:
        without, plain = "interactive-first", Candidate(name="interactive-first")
    elif isinstance(network, QNetwork) and network.reserve_weights is not None:
        plain = replace(candidate, network=replace(network, reserve_weights=None, reserve_bias=0.0))
    elif reserve is not None:
        candidate = replace(candidate, reserve=reserve.most)
    if plain is candidate or reserve is None:
        return {without if named is not None and named.reserve else name: plain}
    return {name: candidate, without: plain}


def policies_beside(names: Sequence[str], taken: Container[str]) -> dict[str, Candidate]:
    """Further policies, as [policy] model has them, but those that are replayed anyway.

    Raises:
        ConfigurationError: a name that is not known.
        PolicyError: a model that cannot be used.
    """
    return {name: candidate_of(name) for name in names if name not in ALWAYS and name not in taken}
