"""Builds the offer service of a configured site: joins the batch system to the broker's side."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.pbs_adapter_choice import choose_batch_system
from slurm_rl_plugin.batch_systems.slurm_cluster import SINFO
from slurm_rl_plugin.batch_systems.slurm_expected_start import SlurmStarts
from slurm_rl_plugin.batch_systems.slurm_fields import parse_all_processors
from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_settings import SHOW_CONFIG, parse_cluster_name
from slurm_rl_plugin.brokers.live.offer_desk import OfferDesk
from slurm_rl_plugin.brokers.live.offer_pages import OfferPages
from slurm_rl_plugin.brokers.live.offer_worth import OfferWorth
from slurm_rl_plugin.brokers.live.recent_starts import RecentStarts, StartLimits
from slurm_rl_plugin.brokers.live.request_rate import RequestRate
from slurm_rl_plugin.brokers.live.shared_token import SharedToken
from slurm_rl_plugin.brokers.live.utility_file import UtilityFile
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError

logger = logging.getLogger(__name__)

#: Seconds for which name and processors of the site are taken as they were.
_KNOWN_FOR = 60.0
#: Part of the requests of a minute that may come without a pause.
_AT_ONCE = 1 / 3


def build_offer_pages(configuration: Configuration) -> OfferPages:
    """The page that the service serves.

    Raises:
        ConfigurationError: the batch system has no will-run test, or the token cannot be read.
    """
    check_batch_system(configuration)
    given = configuration.values["offer"]
    rate = RequestRate(
        per_minute=given["requests_per_minute"],
        at_once=given["requests_per_minute"] * _AT_ONCE,
        monotonic=time.monotonic,
    )
    return OfferPages(
        answer=build_offer_desk(configuration).answer,
        token=SharedToken(Path(given["token_file"])),
        rate=rate,
        monotonic=time.monotonic,
    )


def check_batch_system(configuration: Configuration) -> None:
    """Only Slurm tells when a job would start.

    Raises:
        ConfigurationError: it is OpenPBS.
    """
    if choose_batch_system(configuration.values["batch_system"]["adapter"], os.environ).pbs:
        raise ConfigurationError(
            "offers need Slurm's will-run test, and OpenPBS has none: run `slurm-rl offer` at "
            "sites with Slurm only."
        )


def offer_commands(configuration: Configuration) -> CommandRunner:
    """Runs the service's commands."""
    timeout = float(configuration.values["offer"]["timeout"])
    return CommandRunner(environment=None, timeout=timeout, on_call=None)


def build_offer_desk(configuration: Configuration) -> OfferDesk:
    """What makes the offers."""
    given = configuration.values["offer"]
    commands = offer_commands(configuration)
    limits = StartLimits(
        keep=float(given["keep"]),
        at_once=given["tests_at_once"],
        busy_share=float(given["busy_share"]),
        patience=float(given["timeout"]),
    )
    starts = SlurmStarts(commands, given["account"])
    return OfferDesk(
        site=Remembered(lambda: parse_cluster_name(commands.read(SHOW_CONFIG))).value,
        starts=RecentStarts(starts.expected_start, limits, time.monotonic),
        worth=_worth(configuration),
        all_processors=Remembered(lambda: parse_all_processors(commands.read(SINFO))).value,
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
    )


def _worth(configuration: Configuration) -> OfferWorth:
    given = configuration.values["offer"]
    published = None
    if given["utility_file"]:
        clock = time.time  # noqa: TID251 - the composition root hands out the clock
        published = UtilityFile(Path(given["utility_file"]), clock).utility
    return OfferWorth(given["price"], configuration.classifier.is_interactive, published)


@dataclass(slots=True)
class Remembered:
    """A fact of the site that changes rarely; one thread at a time asks for it.

    Attributes:
        ask: for it.
    """

    ask: Callable[[], Any]
    _value: Any = None
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def value(self) -> Any:
        """As it was at most a minute ago.

        Raises:
            BatchSystemError: as `ask` does.
        """
        with self._lock:
            if time.monotonic() >= self._until:
                self._value = self.ask()
                self._until = time.monotonic() + _KNOWN_FOR
            return self._value
