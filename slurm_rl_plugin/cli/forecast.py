"""`slurm-rl forecast`: the service that forecasts when pending jobs start."""

from __future__ import annotations

import argparse
from pathlib import Path

from slurm_rl_plugin.cli.progress import said_if_long
from slurm_rl_plugin.cli.service_process import log_to_standard_error, serve_until_stopped
from slurm_rl_plugin.cli.site_options import (
    add_configuration_options,
    become_owner,
    configuration_of,
)
from slurm_rl_plugin.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, and how much the service logs."""
    add_configuration_options(parser)
    parser.add_argument("--once", action="store_true", help="make one forecast, then exit")
    parser.add_argument("-v", "--verbose", action="store_true", help="also log debug messages")


def main(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_standard_error(verbose=options.verbose)
    configuration = configuration_of(options)
    if not configuration.sections.forecast.queue_file:
        raise ConfigurationError(
            "[forecast] queue_file is empty: name the file in which the daemon writes the queue, "
            "and restart the daemon."
        )
    become_owner(Path(configuration.sections.forecast.kept_file).parent)
    with said_if_long("loading"):
        from slurm_rl_plugin.services.forecast_service import forecast_service  # noqa: PLC0415 - the simulator takes seconds, a faulty configuration none

    service = forecast_service(configuration)
    if options.once:
        return 0 if service.forecast_once() else 1
    serve_until_stopped(service.serve, service.work)
    service.forecaster.kept.close()
    return 0
