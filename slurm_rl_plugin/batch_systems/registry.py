"""Every batch system by name: a new one is its folder and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.pbs.kind import PBS
from slurm_rl_plugin.batch_systems.port import BatchSystemKind
from slurm_rl_plugin.batch_systems.slurm.kind import SLURM

#: The first is the default if no other is configured or found.
BATCH_SYSTEMS: Mapping[str, BatchSystemKind] = {SLURM.name: SLURM, PBS.name: PBS}
#: Value of [batch_system] adapter for the batch system of this host.
AUTO = "auto"
#: Other values of [batch_system] adapter, each with its batch system.
ADAPTERS: Mapping[str, BatchSystemKind] = {
    adapter: kind for kind in BATCH_SYSTEMS.values() for adapter in kind.adapters
}
#: Mechanism of [reserve] -> keys that it needs in addition to the size of the reserve.
LIMITS: Mapping[str, tuple[str, ...]] = {
    mechanism: keys for kind in BATCH_SYSTEMS.values() for mechanism, keys in kind.limits.items()
}
#: Those that limit other resources than processors too.
LIMITS_OF_RESOURCES: frozenset[str] = frozenset().union(
    *(kind.limit_resources for kind in BATCH_SYSTEMS.values())
)
#: Seconds that each may take to answer; asked only if several are installed.
SECONDS_TO_ANSWER = 5.0


@dataclass(frozen=True, slots=True)
class BatchSystemChoice:
    """Which one is chosen, why in a few words, and whether that is certain."""

    kind: BatchSystemKind
    because: str
    sure: bool = True


def choose_batch_system(wanted: str, environment: Mapping[str, str]) -> BatchSystemChoice:
    """The configured one, else the one on this host, else the one that answers."""
    if wanted != AUTO:
        return BatchSystemChoice(ADAPTERS[wanted], f'adapter = "{wanted}" is configured')
    first, *others = BATCH_SYSTEMS.values()
    lacks = {kind.name: kind.lacks(environment) for kind in BATCH_SYSTEMS.values()}
    here = [kind for kind in others if not lacks[kind.name]]
    if not here:
        words = [f"no {kind.title} is here ({lacks[kind.name]})" for kind in others]
        return BatchSystemChoice(first, ", ".join(words))
    if lacks[first.name]:
        return BatchSystemChoice(here[0], f"{here[0].title} is here, and {lacks[first.name]}")
    return _of_two(first, here[0], environment)


def _of_two(
    first: BatchSystemKind, other: BatchSystemKind, environment: Mapping[str, str]
) -> BatchSystemChoice:
    """Choose between two that have their commands here: one may be left over."""
    answer = first.answers(environment, SECONDS_TO_ANSWER)
    if answer != other.answers(environment, SECONDS_TO_ANSWER):
        one, silent = (first, other) if answer else (other, first)
        words = f"both are installed; {one.title} answers, {silent.title} does not"
        return BatchSystemChoice(one, words)
    how = "both answer" if answer else "neither answers"
    unconfigured = first.lacks_configuration(environment)
    if unconfigured and not answer:
        return BatchSystemChoice(other, f"{how}; {other.title} is here, and {unconfigured}")
    because = (
        f"{first.title} and {other.title} are installed and {how}: set adapter = "
        f'"{other.adapters[0]}" if {other.name.upper()} is meant'
    )
    return BatchSystemChoice(first, because, sure=False)


def taken_back_by_hand(environment: Mapping[str, str]) -> str:
    """Shell command that ends our order on this host; of each batch system if not known."""
    known = BATCH_SYSTEMS.values()
    here = [kind for kind in known if not kind.lacks(environment)] or list(known)
    if len(here) == 1:
        return f"`{here[0].by_hand}`"
    return " or ".join(f"`{kind.by_hand}` ({kind.title})" for kind in here)
