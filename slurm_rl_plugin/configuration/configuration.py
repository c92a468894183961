"""The whole configuration of a site as one valid object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration.files import DEFAULT_SOURCE
from slurm_rl_plugin.configuration.key import DEFAULT
from slurm_rl_plugin.configuration.sections import (
    KEYS,
    OFF,
    RewardSection,
    Sections,
    reserved_amounts,
)
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.hook.cycle_report import CycleSettings, Pace
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings
from slurm_rl_plugin.serving.tls import TlsFiles
from slurm_rl_plugin.units import HOUR, MINUTE
from slurm_rl_plugin.utility.reward import RewardWeights

#: Origin of a weight of [reward] that follows from the goals.
OF_GOALS = "[goals]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Every section of the configuration, with the origin of each value."""

    values: Mapping[str, Mapping[str, Any]]  #: section -> key -> value, defaults filled in
    #: account -> share with sum 1; None for the batch system's own
    shares: Mapping[str, float] | None = None
    shares_source: str = DEFAULT_SOURCE  #: the batch system, if no shares are given
    classifier: JobClassifier = field(default_factory=JobClassifier)
    has_class_rules: bool = False  #: whether the site gives rules or classes
    #: section -> key -> origin of its value; also of each share, of each class by its name, and of
    #: each job-class rule by its number from 1
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  #: one sentence for each removed name in use
    #: no key was faulty; else some have their default instead of the site's value
    is_whole: bool = True

    @property
    def sections(self) -> Sections:
        """The values with their types."""
        return Sections.of(self.values)

    @property
    def goals(self) -> Goals:
        """The weights of the order; `shares` is None if the site gives no shares and no weight."""
        goals: dict[str, Any] = {key: float(each) for key, each in self.values["goals"].items()}
        if self.origins.get("goals", {}).get("shares", DEFAULT) == DEFAULT and self.shares is None:
            goals["shares"] = None
        return Goals(**goals)

    @property
    def reward(self) -> RewardWeights:
        """Weights that training maximises."""
        return RewardWeights(**{key: float(value) for key, value in self.values["reward"].items()})

    def other_rewards(self, trained: Mapping[str, float]) -> dict[str, float]:
        """The weights of a model that differ from the site's.

        A weight that only follows from [goals] never differs: goals act on a model that was trained
        for the default weights.
        """
        wanted, derived = self.values["reward"], reward_for(self.goals)
        default = asdict(RewardSection())
        found = {}
        for key, weight in wanted.items():
            fits = {weight, default[key]} if weight == derived[key] else {weight}
            if all(abs(trained.get(key, 0.0) - each) > 1e-9 for each in fits):
                found[key] = trained.get(key, 0.0)
        return found

    @property
    def cycle_settings(self) -> CycleSettings:
        """What a cycle may do: mode, influence, bounds on writes, deadlines."""
        hook, policy = self.sections.hook, self.sections.policy
        return CycleSettings(
            shadow=hook.mode == "shadow",
            max_writes=hook.max_writes,
            influence=float(hook.influence_hours) or math.inf,
            site_points=hook.site_points,
            inference_deadline=policy.inference_deadline,
            fallback=policy.fallback,
            breaker_failures=policy.breaker_failures,
            breaker_rest=policy.breaker_rest,
            beside_controllers=hook.beside_controllers,
            goals=self.goals,
            wait_targets={
                group: hours * HOUR for group, hours in self.sections.guard.wait_hours.items()
            },
        )

    @property
    def disable_file(self) -> Path | None:
        """While this file exists, the daemon writes nothing; None for no such file."""
        name = self.sections.hook.disable_file
        return Path(name) if name else None

    @property
    def pace(self) -> Pace:
        """How long the daemon waits between cycles, seconds."""
        hook = self.sections.hook
        return Pace(
            longest=float(hook.cycle),
            soonest=float(hook.soonest_cycle),
            busy_share=float(hook.busy_share),
        )

    def tls_of(self, section: str) -> TlsFiles | None:
        """The TLS files of a section that serves pages; None for plain HTTP."""
        where = self.values[section]
        if not where["tls_certificate"]:
            return None
        authority = where["tls_client_ca"]
        return TlsFiles(
            certificate=Path(where["tls_certificate"]),
            key=Path(where["tls_key"]),
            client_authority=Path(authority) if authority else None,
            section=section,
        )

    @property
    def reserve(self) -> ReserveSettings | None:
        """What may be kept free of batch jobs; None for nothing."""
        reserve = self.sections.reserve
        if reserve.mechanism == OFF:
            return None
        return ReserveSettings(
            most=reserve.most_processors,
            widest_batch_job=reserve.widest_batch_job,
            change_interval=float(reserve.change_seconds),
            lift_after=float(reserve.lift_hours) * HOUR or math.inf,
            idle_after=float(reserve.idle_minutes) * MINUTE or math.inf,
            narrow_first=reserve.narrow_first,
            account_share=float(reserve.account_share),
            user_share=float(reserve.user_share),
            most_resources=reserved_amounts(reserve.most_resources),
            widest_batch_resources=reserved_amounts(reserve.widest_batch_resources),
        )

    @property
    def starvation_bound(self) -> float:
        """Seconds; inf for no bound."""
        hours = float(self.sections.guard_rails.starvation_hours)
        return hours * HOUR if hours else math.inf


def reward_for(goals: Goals) -> dict[str, float]:
    """Weights of [reward] that follow from [goals]; those of the default goals are the defaults.

    Slowdown grows with `short_jobs`, the losses of groups with `wide_jobs`, the tail with
    `longest_wait`. Fairness is half of the first three weights at the default points of `shares`,
    and `interactive` moves the rest from time utility to responsiveness.
    """
    default = RewardSection()
    shares = POINTS_A_DOUBLING if goals.shares is None else goals.shares
    fairness = shares / (shares + POINTS_A_DOUBLING)
    time_utility = (1.0 - fairness) / (2.0 + goals.interactive)
    return {
        **asdict(default),
        "time_utility": time_utility,
        "responsiveness": 1.0 - fairness - time_utility,
        "fairness": fairness,
        "tail": default.tail * goals.longest_wait,
        "slowdown": default.slowdown * goals.short_jobs,
        "groups": default.groups * goals.wide_jobs,
    }


def with_derived_reward(found: Configuration) -> Configuration:
    """Derive the weights of [reward] that the site does not give from [goals].

    The first three sum to 1, so all of them are derived or none.
    """
    origins = found.origins["reward"]
    together = {"time_utility", "responsiveness", "fairness"}
    given = {key for key, origin in origins.items() if origin != DEFAULT}
    if given & together:
        given |= together
    derived = {
        key: weight
        for key, weight in reward_for(found.goals).items()
        if key not in given and weight != found.values["reward"][key]
    }
    values = {**found.values, "reward": {**found.values["reward"], **derived}}
    origins = {**origins, **dict.fromkeys(derived, OF_GOALS)}
    return replace(found, values=values, origins={**found.origins, "reward": origins})


def changed_start_keys(running: Configuration, fresh: Configuration) -> list[tuple[str, str]]:
    """(section, name) of each changed key that needs a restart."""
    return [
        place
        for place in _start_keys()
        if fresh.values[place[0]][place[1]] != running.values[place[0]][place[1]]
    ]


def with_start_values(running: Configuration, fresh: Configuration) -> Configuration:
    """The configuration after a reload: `fresh`, except for keys that need a restart."""
    values = {section: dict(found) for section, found in fresh.values.items()}
    for section, name in _start_keys():
        values[section][name] = running.values[section][name]
    return replace(fresh, values=values)


def _start_keys() -> Iterator[tuple[str, str]]:
    for section, definitions in KEYS.items():
        yield from ((section, name) for name, key in definitions.items() if key.at_start)
