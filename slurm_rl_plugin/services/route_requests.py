"""The requests of `slurm-rl route` to the sites, and what it learns between two calls."""

from __future__ import annotations

import getpass
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import EndedRun, JobSubmission, SubmitCommand
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import RemoteSite
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, News, RoutedJobs, RoutedJobsFile
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.brokers.registry import LearningAgentBroker
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.files import read_sites
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ConfigurationError
from slurm_rl_plugin.units import DAY, HOUR

#: Bytes of the longest script, slurmctld's own default limit.
LONGEST_SCRIPT = 4 * 1024 * 1024
#: Seconds between questions for all of a user's jobs at a site; how far the first one looks back.
ASKED_EVERY, FIRST_LOOK = HOUR, 7 * DAY


def submission_within(seconds: float) -> JobSubmission:
    """The user's own submission, by the batch system that can submit to several clusters."""
    makes = [kind.submission for kind in BATCH_SYSTEMS.values() if kind.submission is not None]
    return makes[0](os.environ, seconds)


def given_command(submission: JobSubmission, words: Sequence[str]) -> tuple[SubmitCommand, str]:
    """The command behind `--` and the text of its batch script, "" for none."""
    command = submission.command([*words[1:]] if words[:1] == ["--"] else [*words])
    if command.script is not None:
        return command, _script(Path(command.script))
    if not command.reads_stdin:
        return command, ""
    if sys.stdin.isatty():
        raise ConfigurationError("give a script, or --wrap: nothing comes on standard input.")
    return command, _standard_input()


def _standard_input() -> str:
    """The whole script, as it is: one that is cut off would still run."""
    found = sys.stdin.buffer.read(LONGEST_SCRIPT + 1)
    if len(found) > LONGEST_SCRIPT:
        raise ConfigurationError(
            f"the script on standard input is longer than {LONGEST_SCRIPT} bytes: shorten it."
        )
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(
            "the script on standard input is no UTF-8: give the path of a file instead."
        ) from None


def _script(path: Path) -> str:
    """The text of a script; sbatch itself looks on the PATH too, and so do we."""
    found = path
    if not path.exists() and path.parent == Path():
        folders = os.environ.get("PATH", "").split(os.pathsep)
        found = next((Path(each, path) for each in folders if Path(each, path).is_file()), path)
    try:
        with found.open(errors="replace") as file:
            return file.read(LONGEST_SCRIPT)
    except OSError as error:
        raise ConfigurationError(
            f"script {path} cannot be read ({error.strerror}): give the path of a batch script."
        ) from None


def request_of(
    submission: JobSubmission, command: SubmitCommand, script: str, environment: Mapping[str, str]
) -> JobRequest:
    """The request that the sites get."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # this user has no name
        user = str(os.getuid())
    return submission.request(command, script, environment, user)


def sites_of(configuration: Configuration, environment: Mapping[str, str]) -> list[RemoteSite]:
    """The sites to ask: the file of [route], then the user's own."""
    given = configuration.sections.route.sites_file
    places = [Path(given)] if given else []
    home = environment.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    places.append(Path(home) / "slurm-rl" / "sites.toml")
    sites = read_sites([each for each in places if each.exists()])
    if not sites:
        raise ConfigurationError(
            f"there is no site to ask: write a [[site]] into {' or '.join(map(str, places))}."
        )
    return sites


def state_file(environment: Mapping[str, str]) -> Path:
    """Where this user's routed jobs are kept."""
    home = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(home) / "slurm-rl" / "routed-jobs.json"


def learn_from_past(
    broker: Broker,
    past: RoutedJobsFile,
    submission: JobSubmission,
    sites: Sequence[str],
    user: str,
    now: float,
    tell: Callable[[str], None],
) -> None:
    """Ask accounting what became of the user's jobs, and let the broker learn from all that ended.

    It is asked for the routed ones that are on their way, and now and then for all others.
    Whatever fails costs experience, and never the routing.

    `broker` has learned nothing yet; `tell` takes one sentence for the user.
    """
    known = past.read()
    unknown = job_request({"processors": 1, "user": user})
    news = _news(known, submission, sites, unknown, now, tell)
    if news != News():
        try:
            known = past.change(lambda jobs: jobs.with_ended(news, now))
        except OSError as error:
            tell(f"what became of jobs is not remembered ({error}).")
    for job in known.ended:
        broker.learn(job)
    for each in known.on_their_way:
        if (each.site, each.job_id) in news.running:
            broker.learn(news.running[each.site, each.job_id])
        elif each.site in news.answered and isinstance(broker, LearningAgentBroker):
            broker.waiting(each.site, each.request, max(now - each.submitted, 0.0))


def _news(
    known: RoutedJobs,
    submission: JobSubmission,
    sites: Sequence[str],
    unknown: JobRequest,
    now: float,
    tell: Callable[[str], None],
) -> News:
    """The answers of accounting; `unknown` is the request of a job that was not routed."""
    on_their_way: dict[str, dict[int, JobOnItsWay]] = {site: {} for site in sites}
    for job in known.on_their_way:
        on_their_way.setdefault(job.site, {})[job.job_id] = job
    news = News()
    for site, jobs in on_their_way.items():
        silence = now - known.asked.get(site, 0.0)
        due = site in sites and silence >= ASKED_EVERY
        try:
            runs, never = submission.ended(site, sorted(jobs)) if jobs else ([], [])
            if due:
                own, _ = submission.ended(site, (), min(silence + ASKED_EVERY, FIRST_LOOK))
                runs = [*runs, *(run for run in own if run.job_id not in jobs)]
        except BatchSystemUnavailable as error:  # one accounting database has all sites
            tell(f"nothing is learned: {error}.")
            break
        except BatchSystemError as error:
            tell(f"nothing is learned from {site}: {error}.")
            continue
        news.answered.add(site)
        news.asked += [site] * due
        news.gone |= {(site, job_id) for job_id in never if job_id in jobs}
        for run in runs:
            _add(news, site, run, jobs.get(run.job_id), unknown, now)
    return news


def _add(
    news: News,
    site: str,
    run: EndedRun,
    routed: JobOnItsWay | None,
    unknown: JobRequest,
    now: float,
) -> None:
    key, runs_now = (site, run.job_id), math.isnan(run.ended)
    met = RoutedJob(
        site=site,
        request=unknown if routed is None else routed.request,
        submitted=run.submitted,
        started=run.started,
        ended=now if runs_now else run.ended,
        outcome="failed" if run.failed else "ran",
    )
    if runs_now:
        news.running[key] = met
    elif routed is None:
        news.others.append(met)
    else:
        if key in news.ran:  # it was requeued
            news.others.append(news.ran[key])
        news.ran[key] = met
