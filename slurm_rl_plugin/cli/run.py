"""`slurm-rl run`: the daemon beside the batch system."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

from prometheus_client import CollectorRegistry

from slurm_rl_plugin.cli.hook_assembly import (
    LoadedPolicy,
    build_cycle,
    load_policy,
    load_policy_or_fall_back,
)
from slurm_rl_plugin.configuration import DEFAULT_PATH, Configuration, read_configuration
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.cycle import Cycle
from slurm_rl_plugin.hook.daemon import Daemon, Reloaded, SignalWish, only_daemon
from slurm_rl_plugin.hook.sd_notify import sd_notify
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.http import serve_metrics

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"default {DEFAULT_PATH}")
    parser.add_argument("--once", action="store_true", help="one cycle, then exit; keeps factors")
    parser.add_argument("--shadow", action="store_true", help="write nothing, whatever FILE says")
    parser.add_argument("-v", "--verbose", action="store_true", help="log debugging lines too")


def main(options: argparse.Namespace) -> int:
    """Run until told to stop; 1 if a factor could not be taken back."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(levelname)s %(name)s %(message)s",
    )
    configuration = configuration_of(options)
    with only_daemon(Path(configuration.values["hook"]["state_file"])):
        return _run(options, configuration)


def configuration_of(options: argparse.Namespace) -> Configuration:
    """The configuration file with the flags over it.

    Raises:
        ConfigurationError: lists every fault.
    """
    configuration = read_configuration(options.config or DEFAULT_PATH)
    if options.shadow:
        hook = {**configuration.values["hook"], "mode": "shadow"}
        configuration = replace(configuration, values={**configuration.values, "hook": hook})
    return configuration


def _check_reward(configuration: Configuration, loaded: LoadedPolicy) -> None:
    """Reward weights act by training only: say so where the model was trained for others."""
    card = getattr(loaded.policy, "card", None)
    trained = card.reward_weights if card is not None else {}
    wanted = configuration.values["reward"]
    if trained and any(abs(trained.get(key, 0.0) - wanted[key]) > 1e-9 for key in wanted):
        logger.warning(
            "reward=differs configured=%s trained=%s: retrain, or set [reward] as trained",
            dict(wanted),
            trained,
        )


def _check_lever(configuration: Configuration, cycle: Cycle) -> None:
    """Say what will be written and what it is worth; refuse where it would do nothing.

    A batch system that does not answer is no reason not to start: each cycle checks again.

    Raises:
        ConfigurationError: active mode would do nothing or would be undone.
    """
    try:
        facts = cycle.batch_system.facts()
    except BatchSystemError as error:
        logger.warning("lever=unknown reason=%s", error)
        return
    if facts.harm is not None and not cycle.settings.shadow:
        raise ConfigurationError(f"mode is active, but {facts.harm}")
    hours = float(configuration.values["hook"]["influence_hours"])
    if hours and hours * facts.points_an_hour < 1.0 and not cycle.settings.shadow:
        raise ConfigurationError(
            f"[hook] influence_hours = {hours:g} is worth nothing where age is: raise "
            "PriorityWeightAge in slurm.conf, or set influence_hours = 0."
        )
    worth = f"{hours:g} h = {hours * facts.points_an_hour:.0f} points" if hours else "full"
    logger.info(
        "lever=%s influence=%s release=%s%s",
        facts.lever,
        worth,
        facts.release,
        f" harm={facts.harm}" if facts.harm else "",
    )


def _run(options: argparse.Namespace, configuration: Configuration) -> int:
    loaded = load_policy_or_fall_back(configuration.values["policy"]["model"])
    _check_reward(configuration, loaded)
    cycle = build_cycle(configuration, loaded)
    _check_lever(configuration, cycle)
    where = configuration.values["metrics"]
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, loaded.labels, where["max_accounts"])
    daemon = _daemon(options, configuration, cycle, metrics)
    if options.once:
        return 0 if daemon.run_once().succeeded else 1
    port = serve_metrics(registry, where["address"], where["port"])
    logger.info(
        "daemon=ready mode=%s policy=%s metrics=http://%s:%d/metrics",
        configuration.values["hook"]["mode"],
        cycle.policy.name,
        where["address"],
        port,
    )
    sd_notify("READY=1", os.environ)
    released = daemon.run()
    return 0 if released else 1


def _daemon(
    options: argparse.Namespace,
    configuration: Configuration,
    cycle: Cycle,
    metrics: CycleMetrics,
) -> Daemon:
    stop, reload_wanted = SignalWish(time.sleep), SignalWish(time.sleep)

    def on_stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        sd_notify("STOPPING=1", os.environ)
        stop.set()

    def on_reload(number: int, frame: FrameType | None) -> None:
        del number, frame
        reload_wanted.set()

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    signal.signal(signal.SIGHUP, on_reload)
    return Daemon(
        cycle=cycle,
        pace=configuration.pace,
        publish=metrics.publish,
        stop=stop,
        reload_wanted=reload_wanted,
        reload=lambda: _reloaded(options, metrics),
        disable_file=configuration.disable_file,
        alive=_alive,
        monotonic=time.monotonic,
        sleep=time.sleep,
    )


def _alive() -> None:
    sd_notify("WATCHDOG=1", os.environ)


def _reloaded(options: argparse.Namespace, metrics: CycleMetrics) -> Reloaded | None:
    """What the files say now; None, and all as before, where they are faulty."""
    try:
        configuration = configuration_of(options)
        loaded = load_policy(configuration.values["policy"]["model"])
        cycle = build_cycle(configuration, loaded)
        _check_lever(configuration, cycle)
    except SlurmRLError as error:
        logger.error("reload=refused reason=%s", error)
        return None
    except Exception:  # a bug of ours must not end a daemon that has factors to take back
        logger.exception("reload=broken")
        return None
    metrics.describe_model(loaded.labels)
    logger.info("reload=done policy=%s", loaded.policy.name)
    return Reloaded(cycle, configuration.pace, configuration.disable_file)
