"""Replays part of a Slurm site's week on private clusters with several kinds of nodes.

Needs root, the log with one sbatch line for each job, and Slurm 26.05
(tests/real/install_release.sh forky). Every repetition submits the same jobs at the same times to a
cluster of its own. `fidelity` compares the simulator with the starts, and the repetitions with each
other. Repetitions that are finished in the same folder are not run again. With --change the
cluster's slurm.conf is changed, and jobs that it would refuse are sent as what-if assumes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import HOUR, MINUTE
from slurm_rl_plugin.what_if.variant import admitted
from tests.bench.live.harness import (
    PATIENCE,
    end_all,
    keep_files,
    kept_runs,
    say,
    submit_in_time,
    wait_until_all_started,
)
from tests.bench.node_hours.load import USERS, NodeJob, cluster_plan, stretch_of
from tests.bench.node_hours.simulated import log_of, waits_of
from tests.bench.report import write_document
from tests.real.cluster_files import FIRST_PORT, ClusterPlan, write_slurm_conf
from tests.real.conftest import running_slurm
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import RELEASES, SlurmRelease, missing_release

#: Seconds between the starts of clusters that run at the same time.
APART = 50.0
#: Fields of sacct that are kept; times are seconds since the epoch.
FIELDS = (
    *("JobIDRaw", "Submit", "Eligible", "Start", "End"),
    *("State", "NodeList", "AllocTRES", "Flags", "Priority"),
)


def replay(
    name: str,
    release: str,
    jobs: Sequence[NodeJob],
    plan: ClusterPlan,
    folder: Path,
    stop: Event,
    during: Callable[[PrivateSlurm], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Any]:
    """Runs the jobs until the last one has started; jobs that run then are cancelled.

    Args:
        jobs: in order of submission.
        folder: gets copies of the configuration and of slurmctld's log.
        during: context that is open until the last job has started.

    Returns:
        The longest delay of a submission, and each job with its outcome by sacct.
    """
    with running_slurm(plan, RELEASES[release]) as cluster:
        with during(cluster):
            numbers, _, late = submit_in_time(name, cluster, [job.live() for job in jobs], stop)
            say(f"{name}: all submitted")
            wait_until_all_started(cluster, stop, 2 * HOUR)
        end_all(cluster, USERS)
        found = _outcomes(cluster)
        keep_files(cluster, folder, "slurm.conf", "gres.conf")
    both = zip(numbers, jobs, strict=True)
    done = [asdict(job) | {"number": number, "outcome": found[number]} for number, job in both]
    return {"late": late, "jobs": done}


def _outcomes(cluster: PrivateSlurm) -> dict[int, dict[str, Any]]:
    """Job id -> FIELDS in lower case; seconds are numbers, everything else is sacct's text."""
    said = cluster.run(
        *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", ",".join(FIELDS)),
        env={"SLURM_TIME_FORMAT": "%s"},
        timeout=PATIENCE,
    )
    return {
        int(number): {
            name.lower(): int(text) if text.isdigit() else text
            for name, text in zip(FIELDS[1:], texts, strict=True)
        }
        for number, *texts in (line.split("|") for line in said.stdout.splitlines())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SentJobs:
    """The jobs that a changed cluster gets."""

    plan: ClusterPlan  #: the cluster with its changed slurm.conf.
    jobs: Sequence[NodeJob]  #: in order of submission, without those that the cluster cannot hold
    places: Sequence[int]  #: their places among the jobs of the log
    sentences: Sequence[str]  #: differences from the jobs of the log


def sent_under(
    change: str, plan: ClusterPlan, jobs: Sequence[NodeJob], release: SlurmRelease
) -> SentJobs:
    """The cluster after a change, and the jobs as what-if assumes that users would send them.

    Args:
        change: of settings and partitions, as `slurm-rl what-if --change` takes it; "" for none.

    Raises:
        ConfigurationError: the change cannot be understood.
        ValueError: it changes nodes or the accounting database.
    """
    if not change:
        return SentJobs(plan=plan, jobs=jobs, places=range(len(jobs)), sentences=())
    before = _described(plan, release)
    after = changed_cluster(before, change)
    if after.entries or list(after.said.nodes) != list(before.said.nodes):
        raise ValueError(f"--change {change}: only settings and partitions can be changed")
    log = log_of([_as_run(place, job) for place, job in enumerate(jobs)], 0.0)
    sent, sentences = admitted(log, before.machine, after.machine)
    places = sorted(prepare_log(sent, machine=after.machine).log.job_id.tolist())
    if missing := len(jobs) - len(places):
        sentences.append(f"{missing} jobs fit on no node of their partition: not sent.")
    changed_jobs = [
        replace(
            jobs[place],
            partition=sent.partitions[sent.partition[place]],
            minutes=ceil(sent.time_limit[place] / MINUTE),
            seconds=min(jobs[place].seconds, float(sent.run_time[place])),
        )
        for place in places
    ]
    plan = _changed_plan(plan, before, after)
    return SentJobs(plan=plan, jobs=changed_jobs, places=places, sentences=sentences)


def changed_cluster(cluster: DescribedCluster, change: str) -> DescribedCluster:
    """A cluster after changes that `;` separates."""
    for each in filter(None, map(str.strip, change.split(";"))):
        cluster = changed(cluster, each)
    return cluster


def _described(plan: ClusterPlan, release: SlurmRelease) -> DescribedCluster:
    """The cluster by the slurm.conf of a plan."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("etc", "run"):
            folder.joinpath(each).mkdir()
        write_slurm_conf(folder, plan, FIRST_PORT, release.number)
        return read_cluster(folder / "etc")


def _changed_plan(
    plan: ClusterPlan, before: DescribedCluster, after: DescribedCluster
) -> ClusterPlan:
    known = before.said.settings
    options = {
        known[key].key if key in known else value.key: value.text
        for key, value in after.said.settings.items()
        if value != known.get(key)
    }
    partitions = [
        " ".join(
            [f"PartitionName={each.name.text}"]
            + [f"{value.key}={value.text}" for value in each.keys.values()]
        )
        for each in after.said.partitions
    ]
    return replace(plan, options={**plan.options, **options}, partitions=partitions)


def _as_run(place: int, job: NodeJob) -> dict[str, Any]:
    """A job as if it had started at once."""
    times = {"submit": 0.0, "eligible": 0.0, "start": 0.0, "end": job.seconds}
    return asdict(job) | {"number": place, "outcome": {"state": "COMPLETED", **times}}


def add_load_arguments(parser: argparse.ArgumentParser, jobs: int) -> None:
    """Adds the log and its part to replay."""
    parser.add_argument("log", type=Path, help="one sbatch line for each job, gzip")
    parser.add_argument("--first", type=int, default=17000, help="place of the first job")
    parser.add_argument("--jobs", type=int, default=jobs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing, prints and writes a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_load_arguments(parser, 850)
    parser.add_argument("--speed", type=float, default=170.0, help="seconds of the log in one")
    parser.add_argument("--change", default="", help="of slurm.conf, as what-if takes it")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="clusters at the same time")
    parser.add_argument("--release", choices=sorted(RELEASES), default="26.05")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    chosen = parser.parse_args(arguments)
    release = RELEASES[chosen.release]
    if missing := missing_release(release):
        sys.exit(missing)
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, chosen.speed)
    sent = sent_under(chosen.change, cluster_plan(chosen.speed), jobs, release)
    for sentence in sent.sentences:
        say(sentence)
    head = {
        **{name: getattr(chosen, name) for name in ("first", "speed", "release", "change")},
        "log": chosen.log.name,
        "places": list(sent.places),
        "sentences": sent.sentences,
        "asked": [asdict(job) for job in sent.jobs],
    }
    runs = kept_runs(
        {chosen.output / f"rep{number}/jobs.json": None
         for number in range(1, chosen.repetitions + 1)},
        lambda _: head,
        lambda _, folder, stop: replay(
            folder.name, chosen.release, sent.jobs, sent.plan, folder, stop
        ),
        at_once=chosen.at_once,
        apart=APART,
    )  # fmt: skip
    summary = {"repetitions": [summary_of(run) for run in runs]}
    write_document(chosen.output / "node-hours.json", summary)
    print(json.dumps(summary, indent=1))
    return 0


def summary_of(run: dict[str, Any]) -> dict[str, Any]:
    """Counts and waits of one repetition, seconds."""
    outcomes, wait = [job["outcome"] for job in run["jobs"]], waits_of(run)
    return {
        "jobs": len(outcomes),
        "states": dict(Counter(each["state"].split()[0] for each in outcomes)),
        "late": run["late"],
        "mean_wait": float(wait.mean()),
        "longest_wait": float(wait.max()),
        "by_backfill": sum("SchedBackfill" in each["flags"] for each in outcomes) / len(outcomes),
    }


if __name__ == "__main__":
    sys.exit(main())
