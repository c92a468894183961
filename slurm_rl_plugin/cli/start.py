"""`slurm-rl start`: when a job starts, pending or not submitted yet; for every user."""

from __future__ import annotations

import argparse
import getpass
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.slurm.options import asked_of
from slurm_rl_plugin.cli.argument_types import job_number
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import answer, print_table, slurm_time
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.resources import GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.services.forecast_client import ServiceClient
from slurm_rl_plugin.services.route_requests import given_command, request_of, submission_within

#: Seconds that reading a user's options may take.
_SECONDS = 10.0

_HEADER = ("JOBID", "PARTITION", "START", "50 % BETWEEN", "90 % BETWEEN", *("10 MIN", "1 H", "1 D"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and where the service is."""
    parser.usage = "slurm-rl start [options] [JOBID | -- sbatch ...]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="JOBID",
        help="a pending job or, after --, the sbatch command of a job that is not yet submitted "
        "(default: all your pending jobs)",
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("-u", "--user", metavar="USER", help="all pending jobs of this user")
    whose.add_argument("--all", action="store_true", help="all jobs that you may see")
    parser.add_argument(
        "--advice",
        action="store_true",
        help="also report whether another request would start sooner; takes some seconds",
    )
    parser.add_argument("--url", default="", help="service on another host, for portals")
    parser.add_argument("--token-file", default="", metavar="FILE", help="file with its token")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_configuration_options(parser)


def main(options: argparse.Namespace) -> int:
    """Ask the service and print what it says."""
    configuration = configuration_of(options, or_defaults=True)
    if options.url and not options.token_file:
        raise ConfigurationError("--url needs --token-file: give both.")
    client = ServiceClient(
        socket=configuration.sections.forecast.socket,
        url=options.url,
        token_file=options.token_file,
    )
    document = _answer(options, configuration, client)
    return answer(options, document, lambda: print_starts(document))


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


def _request(words: list[str], configuration: Configuration) -> dict[str, Any]:
    submission = submission_within(_SECONDS)
    if len(words) == 1 and not Path(words[0]).exists():  # else a script, whose command is missing
        try:
            submission.command(words)
        except ConfigurationError:
            raise ConfigurationError(
                f"{printable(words[0])!r} is neither a job nor a command: give a job's number, "
                "such as 123 or 123_4, or the command to submit with behind --, such as -- sbatch "
                "job.sh."
            ) from None
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
        "partition": request.job.partition,
        "processors": request.processors,
        "nodes": asked.nodes,
        "time_limit": limit if math.isfinite(limit) else None,
        "memory": asked.amounts.get(MEMORY, 0.0),
        "memory_per_cpu": asked.memory_per_cpu,
        "gpus": asked.amounts.get(GPUS, 0.0),
        "interactive": configuration.classifier.is_interactive(request.job),
    }


def print_starts(document: Mapping[str, Any]) -> None:
    """Print a table of the jobs with a forecast, then the sentences of each job."""
    jobs, now = document["jobs"], float(document["foretold"])
    forecast = [job for job in jobs if job.get("forecast")]
    if not jobs:
        print("no job of yours was pending in the last snapshot.")
    if forecast:
        print_table(list(_HEADER), [_row(job, now) for job in forecast])
    for job in jobs:
        for line in _lines(job):
            print(f"{_name(job)}: {line}")
    notes = dict.fromkeys(filter(None, (document.get("old"), *(job.get("note") for job in jobs))))
    for note in notes:
        print(note)


def _row(job: Mapping[str, Any], now: float) -> list[Any]:
    forecast = job["forecast"]
    bands = [
        " to ".join(span_text(max(end - now, 0.0)) for end in forecast["bands"][part])
        for part in ("50 %", "90 %")
    ]
    start = f"{slurm_time(forecast['start'])} (in {span_text(forecast['start'] - now)})"
    chances = [f"{chance:.0%}" for chance in forecast["chances"].values()]
    return [_name(job), job.get("partition") or "-", start, *bands, *chances]


def _name(job: Mapping[str, Any]) -> str:
    return str(job["job"]) if job["job"] else "this job"


def _lines(job: Mapping[str, Any]) -> list[str]:
    lines = [f"{job['reason']}."] if job.get("reason") else []
    if job.get("why_not"):
        lines.append(str(job["why_not"]))
    ahead, own = int(job["ahead"]), int(job["ahead_of_account"] or 0)
    if not job.get("why_not") or ahead:
        of_account = f", {own} of them of its account" if own else ""
        lines.append(
            f"behind {ahead} jobs of its partition{of_account}."
            if ahead
            else "first in its partition."
        )
    if job.get("tasks", 1) > 1:
        lines.append(f"it is an array: {job['tasks']} tasks wait, and this is of the first.")
    for each in job.get("advice", ()):
        low, high = (span_text(end) for end in each["interval"])
        killed = f"; {each['killed']:.1%} of such jobs run longer" if each["killed"] else ""
        lines.append(
            f"{each['words']}: {span_text(each['sooner'])} earlier [{low}, {high}]{killed}."
        )
    return lines
