"""`slurm-rl offer`: the service that offers start times of this site to brokers."""

from __future__ import annotations

import argparse
import logging

from slurm_rl_plugin.cli.service_process import log_to_standard_error, serve_until_stopped
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.services.offer_service import build_bound_offers, build_offer_pages
from slurm_rl_plugin.serving.page_server import serve_pages

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, and how much the service logs."""
    add_configuration_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="also log debug messages")


def main(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_standard_error(verbose=options.verbose)
    configuration = configuration_of(options)
    bound = build_bound_offers(configuration)
    where, tls = configuration.sections.offer, configuration.tls_of("offer")
    pages = build_offer_pages(configuration, bound if where.bind_seconds > 0 else None)

    def begin() -> None:
        port = serve_pages(pages, where.address, where.port, tls, section="offer")
        scheme = "http" if tls is None else "https"
        logger.info("offer=ready url=%s://%s:%d/offer", scheme, where.address, port)

    serve_until_stopped(begin, lambda: None if bound is None else bound.renew())
    if bound is not None:
        bound.renew(everything=True)
    return 0
