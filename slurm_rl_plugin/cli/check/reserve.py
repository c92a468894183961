"""Checks of `slurm-rl check` on the reserve: whether a policy asks for one and it can be kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check, ChecksLimit, LimitsBatch
from slurm_rl_plugin.cli.look.limit_text import amount_words
from slurm_rl_plugin.cli.look.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings


def reserve_of(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Every check; one where nothing is to be kept free."""
    state = Path(configuration.sections.hook.state_file)
    runs = daemon_runs(state)
    if configuration.reserve is None:
        yield Check(PASS, "reserve", "off: no processors are kept free of batch jobs")
        return
    yield _wanted(look, configuration.reserve)
    yield from _bounds(configuration, look)
    system = look.cycle.batch_system
    if not isinstance(system, LimitsBatch):
        yield Check(FAIL, "reserve", f"{system.name} cannot limit batch jobs: turn it off")
    elif isinstance(system, ChecksLimit):
        try:
            writes = runs is False and not look.cycle.stands_by()
            yield from system.limit_checks(writes=writes)
        except BatchSystemError as error:
            yield Check(FAIL, "reserve", str(error))


def _wanted(look: QueueLook, reserve: ReserveSettings) -> Check:
    """Who says how many processors to keep free."""
    policy = look.cycle.policy
    if getattr(policy, "holds", False) or getattr(policy, "reserve", None):
        what = f"{policy.name} says how many processors to keep free"
    else:
        what = f"{policy.name} asks for no number: {reserve.most} processors are kept free"
    return Check(PASS, "reserve policy", what)


def _bounds(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Whether the numbers of [reserve] fit the cluster."""
    snapshot = look.considered.plan.snapshot
    capacity = snapshot.capacity
    reserve = configuration.reserve
    assert reserve is not None
    yield from (_resource(name, reserve, snapshot) for name in reserve.most_resources)
    if reserve.widest_batch_job >= capacity:
        what = f"widest_batch_job is all of the {capacity} processors: nothing is ever kept free"
        yield Check(WARN, "reserve size", what)
    elif reserve.most >= capacity:
        what = f"most_processors is all of the {capacity} processors: batch work might stop"
        yield Check(WARN, "reserve size", what)
    else:
        what = f"{reserve.most} of {capacity} processors at most"
        yield Check(PASS, "reserve size", what + _for_one(reserve))


def _for_one(reserve: ReserveSettings) -> str:
    """What one account and one user may hold of the reserve; "" without bounds."""
    bounds = (("account", reserve.account_most), ("user", reserve.user_most))
    parts = [f"{most:g} for one {who}" for who, most in bounds if math.isfinite(most)]
    return f"; {', '.join(parts)}, further jobs are ordered as batch" if parts else ""


def _resource(name: str, reserve: ReserveSettings, snapshot: QueueSnapshot) -> Check:
    """Whether the numbers of [reserve] fit what the cluster has of another resource."""
    now = snapshot.resources
    has = 0 if now is None else int(now.of(name, now.capacity))
    most, widest = reserve.most_resources[name], reserve.widest_batch_resources.get(name, 1)
    if not has:
        what = (
            f"jobs are given no {name} that the batch system tells of: nothing of it is kept free"
        )
        return Check(WARN, "reserve size", what)
    said = f"{amount_words(name, most)} of {amount_words(name, has)}"
    if widest >= has:
        what = f"{said}: widest_batch_resources is all there is, so nothing is ever kept free"
        return Check(WARN, "reserve size", what)
    if most >= has:
        return Check(WARN, "reserve size", f"{said}: batch work that asks for it might stop")
    return Check(PASS, "reserve size", f"{said} at most")
