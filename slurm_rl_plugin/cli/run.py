"""`slurm-rl run`: the daemon that orders the pending jobs."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from slurm_rl_plugin.cli.service_process import log_to_standard_error
from slurm_rl_plugin.cli.site_options import (
    add_configuration_options,
    become_state_owner,
    configuration_of,
)
from slurm_rl_plugin.configuration import Configuration, Flag
from slurm_rl_plugin.domain.queue_file import QueueOnFile, write_queue
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.daemon import Daemon
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.daemon.signals import SignalRequest, sd_notify
from slurm_rl_plugin.hook.experiment.turns import ExperimentFiles, ExperimentTurns
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import MetricsTextfile, serve_metrics
from slurm_rl_plugin.services.daemon import LoadedFiles, check_lever, describe
from slurm_rl_plugin.services.hook import (
    LoadedPolicy,
    build_cycle,
    check_model_file,
    load_policy_or_fall_back,
)

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, and whether the daemon runs once, in shadow mode, or verbosely."""
    add_configuration_options(parser)
    parser.add_argument("--once", action="store_true", help="one cycle, then exit; keep factors")
    parser.add_argument(
        "--shadow", action="store_true", help="write nothing, whatever [hook] mode is"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also log debug messages")


def main(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 1 if a factor could not be rolled back."""
    log_to_standard_error(verbose=options.verbose)
    configuration = _configuration(options)
    become_state_owner(configuration)
    check_model_file(configuration.sections.policy.model)
    reload_wanted = SignalRequest(time.sleep)
    # a SIGHUP may arrive before the daemon is ready, and must not end it then either
    signal.signal(signal.SIGHUP, lambda *_: reload_wanted.set())
    with only_daemon(Path(configuration.sections.hook.state_file)):
        return _run(options, configuration, reload_wanted)


def _configuration(options: argparse.Namespace) -> Configuration:
    shadow = [Flag("hook.mode=shadow", "--shadow")] if options.shadow else []
    return configuration_of(options, *shadow)


def _check_reward(configuration: Configuration, loaded: LoadedPolicy) -> None:
    """Warn if the model was trained for other reward weights, which act only in training."""
    trained = loaded.card.reward_weights if loaded.card is not None else {}
    if trained and configuration.other_rewards(trained):
        logger.warning(
            "reward=differs configured=%s trained=%s: retrain, or set [reward] as trained",
            asdict(configuration.reward),
            trained,
        )


def _run(
    options: argparse.Namespace, configuration: Configuration, reload_wanted: SignalRequest
) -> int:
    loaded = load_policy_or_fall_back(configuration.sections.policy.model)
    _check_reward(configuration, loaded)
    cycle = build_cycle(configuration, loaded)
    check_lever(configuration, cycle)
    where = configuration.sections.metrics
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, loaded.labels, where.max_accounts)
    describe(metrics, configuration, cycle)
    path = where.textfile
    textfile = MetricsTextfile(path=Path(path), registry=registry) if path else None
    files = LoadedFiles(
        read=lambda: _configuration(options), started=configuration, metrics=metrics, loaded=loaded
    )
    daemon = _daemon(configuration, cycle, metrics, textfile, files, reload_wanted)
    if options.once:
        return 0 if daemon.run_once().succeeded else 1
    port = serve_metrics(metrics, where.address, where.port, configuration.tls_of("metrics"))
    logger.info(
        "daemon=ready mode=%s policy=%s metrics=%s://%s:%d/metrics",
        configuration.sections.hook.mode,
        cycle.policy.name,
        "http" if configuration.tls_of("metrics") is None else "https",
        where.address,
        port,
    )
    sd_notify("READY=1", os.environ)
    daemon.alive()
    released = daemon.run()
    if textfile is not None:
        textfile.remove()
    if released:  # nothing is outstanding, so a missing heartbeat must not start a rollback
        try:
            daemon.cycle.batch_system.leave()
        except OSError as error:
            logger.error("heartbeat=left reason=%s", error)
    return 0 if released else 1


def _daemon(
    configuration: Configuration,
    cycle: Cycle,
    metrics: CycleMetrics,
    textfile: MetricsTextfile | None,
    files: LoadedFiles,
    reload_wanted: SignalRequest,
) -> Daemon:
    stop = SignalRequest(time.sleep)

    def on_stop(*_: object) -> None:
        sd_notify("STOPPING=1", os.environ)
        stop.set()

    def publish(report: CycleReport) -> None:
        metrics.publish(report)
        if textfile is not None:
            textfile.write()
        queue_file.write(report)

    def alive() -> None:
        """Notify systemd and the batch system that the daemon is alive."""
        sd_notify("WATCHDOG=1", os.environ)
        try:
            daemon.cycle.batch_system.beat()
        except OSError as error:
            logger.error("heartbeat=failed reason=%s", error)

    state_file = Path(configuration.sections.hook.state_file)
    where = configuration.sections.forecast.queue_file
    queue_file = _QueueFile(path=Path(where) if where else None)
    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    daemon = Daemon(
        cycle=cycle,
        pace=configuration.pace,
        publish=publish,
        stop=stop,
        reload_wanted=reload_wanted,
        reload=lambda: files.reloaded(daemon.cycle),
        bring_in=files.bring_in,
        disable_file=configuration.disable_file,
        alive=alive,
        monotonic=time.monotonic,
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        sleep=time.sleep,
        turns=ExperimentTurns(files=ExperimentFiles(state_file=state_file)),
    )
    return daemon


@dataclass(slots=True, kw_only=True)
class _QueueFile:
    """The queue of each cycle, for the forecast service; a failed write does not stop a cycle."""

    path: Path | None
    _warned: bool = False

    def write(self, report: CycleReport) -> None:
        """Replace the file by the queue of a cycle, unless the cycle failed or was on standby."""
        if self.path is None or report.snapshot is None or report.failure is not None:
            return
        queue = QueueOnFile(snapshot=report.snapshot, mode=report.mode, policy=report.policy)
        try:
            write_queue(self.path, queue)
        except OSError as error:
            if not self._warned:
                logger.warning("queue_file=unwritable path=%s error=%s", self.path, error)
            self._warned = True
        else:
            self._warned = False
