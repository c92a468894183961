"""`slurm-rl route`: rank sites for a job, and submit it to the best one that accepts it."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import JobSubmission, SubmitCommand
from slurm_rl_plugin.brokers.live.job_document import LONGEST_LIFE, Forwarding
from slurm_rl_plugin.brokers.live.remote_site import RemoteSite, SiteAnswer, ask_sites
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, RoutedJobsFile, SharedExperience
from slurm_rl_plugin.brokers.port import Broker, RankedSite, RoutedJob
from slurm_rl_plugin.brokers.registry import BROKERS, LEARNERS, LearningAgentBroker, broker_named
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import print_json, print_table, slurm_duration, slurm_time
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import ConfigurationError, JobNotAccepted, SlurmRLError
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.route_requests import (
    given_command,
    learn_from_past,
    request_of,
    sites_of,
    state_file,
    submission_within,
)

now = time.time  # noqa: TID251 - the composition root hands out the clock

_HEADER = ("SITE", "START", "WAIT", "UTILITY", "PRICE", "REASON")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The broker, whether to submit the job, and its sbatch command."""
    add_configuration_options(parser)
    parser.add_argument("--submit", action="store_true", help="submit with sbatch -M")
    parser.add_argument(
        "--broker", choices=BROKERS, help="broker that ranks the sites (default: [route] broker)"
    )
    parser.add_argument(
        "--formula", help="your value of an offer, for --broker market (default: [route] formula)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="sbatch and its options, after --",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A job on its way to a site."""

    configuration: Configuration  #: in force
    command: SubmitCommand  #: of the user
    script: str | None  #: from standard input; None if sbatch does not read it
    request: JobRequest  #: sent to the sites
    submission: JobSubmission  #: submits jobs and reads accounting
    past: RoutedJobsFile  #: the user's routed jobs
    sites: Sequence[RemoteSite]  #: to ask


def main(options: argparse.Namespace) -> int:
    """Rank, print, and submit if wanted; 1 if no site accepts the job."""
    configuration = configuration_of(options, or_defaults=True)
    named = options.broker or configuration.sections.route.broker
    broker = broker_named(
        named,
        clock=now,
        seed=time.time_ns(),
        formula=options.formula or configuration.sections.route.formula,
        is_interactive=configuration.classifier.is_interactive,
    )
    route = _route(options, configuration)
    ranking, silent = (_learned if named in LEARNERS else _asked)(broker, route)
    if not options.json and "parsable" not in route.command.options:
        _print_ranking(ranking, silent, now())
    submitted = _submit(route, ranking) if options.submit and ranking else None
    if options.json:
        parts = ("site", "job_id", "said")
        document = {  # times in seconds since the epoch
            "time": now(),
            "ranking": [_entry(each) for each in ranking],
            "skipped": [{"site": each.name, "why": each.why_not} for each in silent],
            "submitted": submitted and dict(zip(parts, submitted, strict=True)),
        }
        print_json(document)
    elif submitted is not None:
        sys.stdout.write(f"{submitted[2]}\n")
    if not ranking:
        _warn("no site accepts the job now.")
    return 0 if ranking and (submitted is not None or not options.submit) else 1


def _route(options: argparse.Namespace, configuration: Configuration) -> Route:
    submission = submission_within(float(configuration.sections.route.submit_timeout))
    command, script = given_command(submission, options.command)
    if options.submit and shutil.which(submission.program) is None:
        raise ConfigurationError(
            f"{submission.program} is not installed here: run this on a host that submits jobs."
        )
    return Route(
        configuration=configuration,
        command=command,
        script=script if command.reads_stdin else None,
        request=request_of(submission, command, script, os.environ),
        submission=submission,
        past=RoutedJobsFile(state_file(os.environ)),
        sites=sites_of(configuration, os.environ),
    )


def _learned(broker: Broker, route: Route) -> tuple[list[RankedSite], list[SiteAnswer]]:
    """Rank all sites by the waits of the user's own jobs; no site is asked."""
    names, user = [site.name for site in route.sites], route.request.job.user
    learn_from_past(broker, route.past, route.submission, names, user, now(), _warn)
    folder = route.configuration.sections.route.shared_experience
    if folder and isinstance(broker, LearningAgentBroker):
        shared = SharedExperience(Path(folder), os.getuid())
        try:
            broker.others = shared.waits(now())
            shared.tell(broker.met(user))
        except OSError as error:
            _warn(f"experience is not shared, or only in part ({error}).")
    return broker.rank(route.request, [SiteAnswer(name=name) for name in names]), []


def _asked(broker: Broker, route: Route) -> tuple[list[RankedSite], list[SiteAnswer]]:
    """Rank the sites that made an offer, each with its offer; then the other sites."""
    given = route.configuration.sections.route
    timeout, forwarding = float(given.timeout), None
    if given.hops:
        life = min(timeout, LONGEST_LIFE)
        request_id = secrets.token_hex(16)
        forwarding = Forwarding(request_id=request_id, hops=given.hops, time_to_live=life)
    answers = ask_sites(route.sites, route.request, timeout, time.monotonic, forwarding=forwarding)
    offering = [answer for answer in answers if answer.promised is not None]
    offers = {answer.name: answer.promised for answer in offering}
    ranking = broker.rank(route.request, offering)
    return [
        each if each.offer is not None else replace(each, offer=offers[each.site])
        for each in ranking
        if each.site in offers
    ], [answer for answer in answers if answer.promised is None]


def _submit(route: Route, ranking: list[RankedSite]) -> tuple[str, int, str] | None:
    """Submit to the first site that accepts the job: the site, the job ID, and sbatch's output.

    Raises:
        SubmissionUnknown: the site may have accepted the job, so no other site is tried.
    """
    for each in ranking:
        submitted = now()
        try:
            job_id, said = _sent(route, each.site)
        except JobNotAccepted as error:
            _warn(f"{each.site} did not accept the job: {error}")
            times = dict.fromkeys(("submitted", "started", "ended"), submitted)
            refused = RoutedJob(site=each.site, request=route.request, outcome="refused", **times)
            _remember(route, refused)
            continue
        job = JobOnItsWay(site=each.site, job_id=job_id, request=route.request, submitted=submitted)
        _remember(route, job)
        return each.site, job_id, said
    return None


def _sent(route: Route, site: str) -> tuple[int, str]:
    """Submit to a site, into its reservation if it accepts the job there; see `_submit`."""
    words = route.command.words
    if bound := _bound(route, site):
        try:
            return route.submission.submit(site, [*bound, *words], route.script)
        except JobNotAccepted as error:
            _warn(f"{site} does not accept the job in its reservation: {error}")
    return route.submission.submit(site, words, route.script)


def _bound(route: Route, site: str) -> list[str]:
    """The option of sbatch for the reservation of a bound offer; none without one."""
    given = route.configuration.sections.route
    if not given.bind:
        return []
    for each in route.sites:
        if each.name == site:
            try:
                name = each.accept(route.request, float(given.timeout))
            except SlurmRLError as error:
                _warn(f"{site} does not bind its offer: {error}")
            else:
                return [f"--reservation={name}"]
    return []


def _remember(route: Route, job: JobOnItsWay | RoutedJob) -> None:
    """Keep a job in the user's file; a failure loses only experience."""
    try:
        route.past.change(lambda jobs: jobs.with_submitted(job))
    except OSError as error:
        _warn(f"the job is not recorded ({error}).")


def _warn(words: str) -> None:
    sys.stderr.write(f"slurm-rl route: {printable(words)}\n")


def _print_ranking(ranking: Sequence[RankedSite], silent: Sequence[SiteAnswer], now: float) -> None:
    rows: list[list[Any]] = []
    for each in ranking:
        cells: list[Any] = [None] * 4
        if (offer := each.offer) is not None:
            wait = slurm_duration(max(offer.expected_start - now, 0.0))
            cells = [slurm_time(offer.expected_start), wait, offer.utility, offer.price]
        rows.append([each.site, *cells, each.reason])
    rows += [[each.name, None, None, None, None, each.why_not] for each in silent]
    print_table(_HEADER, rows)


def _entry(each: RankedSite) -> dict[str, Any]:
    parts = ("expected_start", "utility", "price", "processors", "published")
    offered = {} if each.offer is None else {part: getattr(each.offer, part) for part in parts}
    return {"site": each.site, "merit": each.merit, "reason": each.reason, **offered}
