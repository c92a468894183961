"""The daemon of a configured site: its start, its reloads, and the models that decide."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_rl_plugin.batch_systems.port import SchedulerFacts
from slurm_rl_plugin.configuration import Configuration, changed_start_keys, with_start_values
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.daemon.daemon import Reloaded
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.q_network import with_goals
from slurm_rl_plugin.services.hook import LoadedPolicy, build_cycle, load_policy
from slurm_rl_plugin.services.model_trial import forget_refusals

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LoadedFiles:
    """Builds the cycle that follows an earlier one."""

    read: Callable[[], Configuration]  #: reads the configuration anew
    started: Configuration  #: the configuration of the start; some of its keys stay until a restart
    metrics: CycleMetrics  #: describes each model that decides from then on
    loaded: LoadedPolicy  #: the configured model
    _in_force: Configuration = field(init=False)

    def __post_init__(self) -> None:
        self._in_force = self.started

    def reloaded(self, earlier: Cycle) -> Reloaded | None:
        """The cycle that the files describe; None, and no change, if they are faulty."""
        self.metrics.update(reloaded=False)
        try:
            fresh = self.read()
            configuration = with_start_values(self.started, fresh)
            forget_refusals()
            loaded = load_policy(configuration.sections.policy.model)
            cycle = build_cycle(configuration, loaded)
            check_lever(configuration, cycle)
            # what the earlier cycle knew of jobs and limits counts for the one that follows it
            cycle.batch_system.go_on_from(earlier.batch_system)
            cycle.limit.go_on_from(earlier.limit)
        except SlurmRLError as error:
            logger.error("reload=refused reason=%s", error)
            return None
        except Exception:  # a fault must not end a daemon that has factors to restore
            logger.exception("reload=broken")
            return None
        self._in_force, self.loaded = configuration, loaded
        self.metrics.update(model=loaded.labels)
        describe(self.metrics, configuration, cycle)
        self.metrics.update(reloaded=True)
        logger.info("reload=done policy=%s", loaded.policy.name)
        left_out = [
            f"[{section}] {name}" for section, name in changed_start_keys(self.started, fresh)
        ]
        if left_out:
            logger.warning("reload=incomplete: a change of %s needs a restart", ", ".join(left_out))
        return Reloaded(cycle, configuration.pace, configuration.disable_file)

    def bring_in(self, cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        """Let a candidate decide in a cycle, or the configured model; see `Daemon.bring_in`."""
        if not candidate and not cycle.candidate:
            return True
        if (candidate, model_sha256) == (cycle.candidate, cycle.model_sha256):
            return True
        loaded = self.loaded
        if candidate:
            try:
                loaded = load_policy(candidate)
            except SlurmRLError as error:
                logger.error("model=refused reason=%s", error)
                return False
            except Exception:  # as above; the configured model goes on
                logger.exception("model=broken")
                return False
            if loaded.sha256 != model_sha256:
                reason = f"{candidate} is not the file that was declared"
                logger.error("model=refused reason=%s", reason)
                return False
        days = float(self._in_force.sections.batch_system.history_days)
        cycle.change_policy(
            with_goals(loaded.policy, self._in_force.goals),
            loaded.sha256,
            candidate=candidate,
            past_days=days if loaded.learns_from_runs else 0.0,
        )
        self.metrics.update(model=loaded.labels)
        logger.info("model=in_turn policy=%s", candidate or "as configured")
        return True


def check_lever(configuration: Configuration, cycle: Cycle) -> None:
    """Log what will be written and how far it goes; refuse if it would have no effect.

    A batch system that does not answer is no reason not to start: each cycle checks again.
    """
    try:
        facts = cycle.batch_system.facts()
    except BatchSystemError as error:
        logger.warning("lever=unknown reason=%s", error)
        return
    hours = facts.bound(float(configuration.sections.hook.influence_hours))
    if not cycle.settings.shadow:
        _refuse(facts, hours, beside_controllers=cycle.settings.beside_controllers)
    influence = f"{hours:g} h = {hours * facts.points_an_hour:.0f} points" if hours else "full"
    logger.info(
        "lever=%s influence=%s release=%s%s",
        facts.lever,
        influence,
        facts.release,
        f" harm={facts.harm}" if facts.harm else "",
    )


def _refuse(facts: SchedulerFacts, hours: float, *, beside_controllers: bool) -> None:
    """Refuse an active mode that would do nothing or would be undone."""
    if facts.harm is not None:
        raise ConfigurationError(f"mode is active, but {facts.harm}")
    if beside_controllers and facts.alone is not None:
        raise ConfigurationError(f"mode is active, but {facts.alone}.")
    if hours and hours * facts.points_an_hour < 1.0:
        raise ConfigurationError(
            f"[hook] influence_hours = {hours:g} adds nothing here, since waiting adds nothing to "
            "a job's priority: raise PriorityWeightAge in slurm.conf, or set influence_hours = 0 "
            "(the daemon's order then overrides the site's own priority and accounts' shares)."
        )


def describe(metrics: CycleMetrics, configuration: Configuration, cycle: Cycle) -> None:
    """Describe the configuration to the metrics."""
    bound = configuration.starvation_bound
    metrics.describe_site(
        state_file=os.path.realpath(configuration.sections.hook.state_file),
        configured_mode=configuration.sections.hook.mode,
        starvation_bound=bound if math.isfinite(bound) else None,
        adapter=cycle.batch_system.name,
        pace=configuration.pace.longest,
        classes=configuration.classifier.classes,
    )
