"""`slurm-rl start`: when a job starts, pending or not submitted yet; for every user."""

from __future__ import annotations

import argparse
import getpass
import math
import os
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.sbatch.asked import asked_of
from slurm_rl_plugin.batch_systems.kind import JobSubmission
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.brokers.route_request import given_command, request_of
from slurm_rl_plugin.cli.forecasts.service_client import ServiceClient
from slurm_rl_plugin.cli.forecasts.start_text import print_starts
from slurm_rl_plugin.cli.look.job_arguments import job_number
from slurm_rl_plugin.cli.tables import print_json, printable
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.resources import GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError

#: Seconds that reading a user's options may take.
_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and where the service is."""
    parser.usage = "slurm-rl start [options] [JOBID | -- sbatch ...]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="JOBID",
        help="a pending job; or, behind --, the sbatch command of a job that is not submitted; "
        "without either, all of your own",
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("-u", "--user", metavar="USER", help="all pending jobs of this user")
    whose.add_argument("--all", action="store_true", help="all that you may see")
    parser.add_argument(
        "--advice",
        action="store_true",
        help="also what another request of the job would bring; takes some seconds",
    )
    parser.add_argument("--url", default="", help="of a service on another host, for portals")
    parser.add_argument("--token-file", default="", metavar="FILE", help="token for --url")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_configuration_options(parser)


def main(options: argparse.Namespace) -> int:
    """Ask the service and print what it says."""
    configuration = _readable_configuration(options)
    if options.url and not options.token_file:
        raise ConfigurationError("--url needs --token-file: give both.")
    client = ServiceClient(
        socket=configuration.sections.forecast.socket,
        url=options.url,
        token_file=options.token_file,
    )
    document = _answer(options, configuration, client)
    if options.json:
        print_json(document)
    else:
        print_starts(document)
    return 0


def _readable_configuration(options: argparse.Namespace) -> Configuration:
    """What is in force; an ordinary user who may not read the site's file has the defaults."""
    return configuration_of(options, or_defaults=True)


def _answer(
    options: argparse.Namespace, configuration: Configuration, client: ServiceClient
) -> dict[str, Any]:
    words = options.words
    if words and not (options.user or options.all) and len(words) == 1 and words[0][:1].isdigit():
        try:
            number = job_number(words[0])
        except argparse.ArgumentTypeError as error:
            raise ConfigurationError(f"{error}.") from None
        more = {"advice": 1} if options.advice else {}
        return client.get(job=number, **more)
    if words and (options.user or options.all):
        raise ConfigurationError(
            "give a job, a command behind --, or --user or --all: one of them."
        )
    if words:
        return client.post(_request(words, configuration) | {"advice": bool(options.advice)})
    if options.all:
        return client.get(all=1)
    return client.get(user=options.user or getpass.getuser())


def _check_single_word(submission: JobSubmission, word: str) -> None:
    """Refuse a word of which nobody knows whether a job or a command was meant.

    Raises:
        ConfigurationError: it is neither.
    """
    try:
        submission.command([word])
    except ConfigurationError:
        if Path(word).exists():  # a script, whose command is missing
            raise
        raise ConfigurationError(
            f"{printable(word)!r} is neither a job nor a command: give a job's number, such as 123 "
            "or 123_4, or the command to submit with behind --, such as -- sbatch job.sh."
        ) from None


def _request(words: list[str], configuration: Configuration) -> dict[str, Any]:
    """What a command asks for, as the service takes it.

    Raises:
        ConfigurationError: the command is not understood.
    """
    makes = [kind.submission for kind in BATCH_SYSTEMS.values() if kind.submission is not None]
    submission = makes[0](os.environ, _SECONDS)
    if len(words) == 1:
        _check_single_word(submission, words[0])
    command, script = given_command(submission, words)
    request = request_of(submission, command, script, os.environ)
    try:
        asked = asked_of(dict(request.needs))
    except ValueError as error:
        raise ConfigurationError(f"{error}: mend the option.") from None
    limit = request.job.time_limit
    return {
        "user": request.job.user,
        "account": request.job.account,
        "partition": request.job.partition.partition(",")[0],
        "processors": request.processors,
        "nodes": asked.nodes,
        "time_limit": limit if math.isfinite(limit) else None,
        "memory": asked.amounts.get(MEMORY, 0.0),
        "memory_per_cpu": asked.memory_per_cpu,
        "gpus": asked.amounts.get(GPUS, 0.0),
        "interactive": configuration.classifier.is_interactive(request.job),
    }
