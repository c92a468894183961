"""Builds the forecast service of a configured site."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.cli.assembly.batch_system import written_influence
from slurm_rl_plugin.cli.assembly.hook import model_path
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile
from slurm_rl_plugin.forecasts.live.asked_queue import QUESTION_SECONDS
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.site_orders import (
    SiteOrder,
    learned_order,
    own_order,
    rule_order,
)
from slurm_rl_plugin.forecasts.live.sources import ReplaySource
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.serving.clients import NAMELESS, RequestRate, SharedToken
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.whole_file import version_of

logger = logging.getLogger(__name__)

#: The batch system whose own backfilling is known.
SLURM = "slurm"
#: Seconds after which past usage counts half, where no batch system tells.
_HALF_LIFE = 7.0 * DAY
#: Seconds of each minute for which one client may have the queue played forward, and without a
#: pause: the others have three quarters of the time.
_SECONDS_A_MINUTE, _AT_ONCE = 15.0, 2.0 * QUESTION_SECONDS
#: What a question counts as at least, seconds.
_LEAST_OF_QUESTION = 1.0
#: The same of writing out what is forecast already, processor seconds, and what a request for it
#: counts as at least: 240 requests a minute of a client whose jobs are few.
_READING_SECONDS_A_MINUTE, _READING_AT_ONCE, _LEAST_OF_READING = 3.0, 3.0, 1.0 / 80.0
#: Modes of a cycle whose order is the policy's.
_ORDERS = ("active", "fallback")
#: As [policy] fallback: our factors are taken back, so that the site's own order is in force.
_SITE = "site"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The orders that replays of this site may have.

    Attributes:
        policy: as the daemon orders in active mode.
        fallback: as it does while the policy is not used.
    """

    policy: SiteOrder
    fallback: SiteOrder

    def of(self, queue: QueueOnFile) -> SiteOrder:
        """The order in force at a look."""
        if queue.mode == "active":
            return self.policy
        return self.fallback if queue.mode in _ORDERS else own_order


def build_forecaster(configuration: Configuration, kind: str, kept: KeptForecasts) -> Forecaster:
    """What foretells the queue.

    Args:
        configuration: of the site.
        kind: name of its batch system.
        kept: forecasts that were given.

    Raises:
        ConfigurationError: no model tells of run times.
        PolicyError: the model of the site cannot be read.
    """
    given = configuration.sections.forecast
    return Forecaster(
        source=build_source(configuration, kind),
        kept=kept,
        draws=given.draws,
        seconds=float(given.every) / 2.0,
        kept_days=float(given.kept_days),
        monotonic=time.monotonic,
    )


def build_source(configuration: Configuration, kind: str) -> ReplaySource:
    """Replays of the site's queue in its own order.

    Args:
        configuration: of the site.
        kind: name of its batch system.

    Raises:
        ConfigurationError: no model tells of run times.
    """
    return ReplaySource(
        order=own_order,
        backfilling="easy",
        on_nodes=AS_SLURM if kind == SLURM else "easy",
        half_life=_HALF_LIFE,
        influence=written_influence(configuration),
        site_points=configuration.cycle_settings.site_points,
        goals=configuration.goals,
    )


def build_orders(configuration: Configuration) -> Orders:
    """The orders of the configured policy and of its fallback.

    Raises:
        PolicyError: the model of the site cannot be read.
    """
    policy = configuration.sections.policy
    fallback = own_order if policy.fallback == _SITE else rule_order(policy.fallback)
    return Orders(policy=order_of(policy.model), fallback=fallback)


def model_version(configuration: Configuration) -> object:
    """Changes where the file of the configured model is replaced; of a rule it never does."""
    model = configuration.sections.policy.model
    named = named_policy(model)
    if named is not None and named.is_rule:
        return ()
    return version_of(model_path(model)) or ()


def order_of(model: str) -> SiteOrder:
    """How a model or a rule orders the queue.

    Args:
        model: as [policy] model would name it.

    Raises:
        PolicyError: it cannot be read.
    """
    named = named_policy(model)
    if named is not None and named.is_rule:
        return rule_order(named.rule)
    network = import_model(model_path(model))
    if not isinstance(network, QNetwork):
        logger.warning("order=unknown model=%s: it has a memory of its own; fifo is taken", model)
        return rule_order("fifo")
    return learned_order(network)


def token_of(configuration: Configuration) -> Callable[[str], bool]:
    """Whether a header bears the token of portals; nobody's does where none is configured.

    Raises:
        ConfigurationError: the token cannot be read.
    """
    path = configuration.sections.forecast.token_file
    if not path:
        return _nobodys
    return SharedToken(Path(path)).is_in


def trusted_users() -> frozenset[int]:
    """Numbers of users that see everything: root, and whom the service runs as."""
    return frozenset({0, os.geteuid()})


def _nobodys(header: str) -> bool:
    del header
    return False


@dataclass(frozen=True, slots=True)
class SecondsOfWork:
    """How many seconds of work one client may cause; see `QuestionPace`.

    Attributes:
        rate: of seconds.
        most: seconds that one question may take.
        least: seconds that a question counts as at least.
    """

    rate: RequestRate
    most: float
    least: float

    def pause(self, client: str) -> float:
        """Take the seconds that a question may cost; seconds to wait before it, 0 for none."""
        return self.rate.pause(client, self.most)

    def spent(self, client: str, seconds: float) -> None:
        """Give back the seconds that a granted question did not take.

        Users without a login name share one share, which is half of a user's.
        """
        counted = max(seconds, self.least) * (2.0 if client == NAMELESS else 1.0)
        self.rate.give_back(client, self.most - counted)


def question_pace(monotonic: Callable[[], float]) -> SecondsOfWork:
    """For how long each client may have the queue played forward.

    Args:
        monotonic: seconds.
    """
    rate = RequestRate(per_minute=_SECONDS_A_MINUTE, at_once=_AT_ONCE, monotonic=monotonic)
    return SecondsOfWork(rate, QUESTION_SECONDS, _LEAST_OF_QUESTION)


def reading_pace(monotonic: Callable[[], float]) -> SecondsOfWork:
    """For how long each client may have what is forecast written out, processor seconds.

    Args:
        monotonic: seconds.
    """
    rate = RequestRate(
        per_minute=_READING_SECONDS_A_MINUTE, at_once=_READING_AT_ONCE, monotonic=monotonic
    )
    return SecondsOfWork(rate, _LEAST_OF_READING, _LEAST_OF_READING)
