"""`slurm-rl offer`: the service that tells brokers when this site would start a job."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import time
from types import FrameType

from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.brokers.offer_assembly import build_offer_pages
from slurm_rl_plugin.cli.daemon.service_log import log_to_standard_error
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.hook.daemon.sd_notify import sd_notify
from slurm_rl_plugin.hook.daemon.signals import SignalRequest
from slurm_rl_plugin.metrics.http import serve_pages

logger = logging.getLogger(__name__)

#: Seconds between signs of life to systemd.
_SIGN_OF_LIFE = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which configuration the offer service reads, and how much it logs."""
    add_configuration_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="log debugging lines too")


def main(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    log_to_standard_error(verbose=options.verbose)
    configuration = configuration_of(options)
    stop = SignalRequest(time.sleep)

    def on_stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # tokens and certificates are read again anyway
    _serve(configuration)
    sd_notify("READY=1", os.environ)
    while not stop.wait(_SIGN_OF_LIFE):
        sd_notify("WATCHDOG=1", os.environ)
    sd_notify("STOPPING=1", os.environ)
    return 0


def _serve(configuration: Configuration) -> None:
    where, tls = configuration.sections.offer, configuration.offer_tls
    port = serve_pages(
        build_offer_pages(configuration),
        where.address,
        where.port,
        tls,
        section="offer",
    )
    scheme = "http" if tls is None else "https"
    logger.info("offer=ready url=%s://%s:%d/offer", scheme, where.address, port)
