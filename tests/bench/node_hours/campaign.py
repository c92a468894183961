"""A stretch of a Slurm site's week on real daemons: nodes of several kinds, memory and GPUs.

Needs root, the log as one sbatch line a job, and Slurm 26.05 (tests/real/install_release.sh forky).
Every repetition submits the same jobs at the same times to a private cluster of its own; a
simulator is then held against the starts, and the repetitions among each other say how near it
can come. What an earlier call has finished in the same folder is kept. With --change the cluster's
slurm.conf is a changed one, and jobs that it would refuse are sent as what-if says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.machine_files.statements import ConfRecord
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.what_if.variant import admitted
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.live.compressed_time import (
    side_by_side,
    tell,
)
from tests.bench.node_hours.figures import figures_of, noise_of
from tests.bench.node_hours.load import NodeJob, cluster_plan, stretch_of
from tests.bench.node_hours.replay import replay
from tests.bench.node_hours.simulated import log_of
from tests.real.cluster_files import FIRST_PORT, ClusterPlan, write_slurm_conf
from tests.real.slurm_releases import RELEASES, SlurmRelease, missing_release


@dataclass(frozen=True, slots=True, kw_only=True)
class SentJobs:
    """What a changed cluster is sent.

    Attributes:
        plan: the cluster, its slurm.conf changed.
        jobs: in order of submission, without those that it cannot hold.
        places: of these in the stretch.
        sentences: which of them are sent otherwise than before.
    """

    plan: ClusterPlan
    jobs: Sequence[NodeJob]
    places: Sequence[int]
    sentences: Sequence[str]


def sent_under(
    change: str, plan: ClusterPlan, jobs: Sequence[NodeJob], release: SlurmRelease
) -> SentJobs:
    """The cluster after a change, and the jobs as what-if says that their users would send them.

    Args:
        change: as `slurm-rl what-if --change` takes it, of settings and partitions; "" for none.
        plan: of the cluster before.
        jobs: of the stretch.
        release: of Slurm, for which slurm.conf is written.

    Raises:
        ConfigurationError: the change cannot be understood.
        ValueError: it is one of nodes or of the accounting database.
    """
    if not change:
        return SentJobs(plan=plan, jobs=jobs, places=range(len(jobs)), sentences=())
    before = _described(plan, release)
    after = changed_cluster(before, change)
    if after.entries or list(after.said.nodes) != list(before.said.nodes):
        raise ValueError(f"--change {change}: only settings and partitions are changed here")
    log = log_of([_as_run(place, job) for place, job in enumerate(jobs)], 0.0)
    sent, sentences = admitted(log, before.machine, after.machine)
    places = sorted(prepare_log(sent, machine=after.machine).log.job_id.tolist())
    if missing := len(jobs) - len(places):
        sentences.append(f"{missing} jobs are held by no node of their partition: not sent.")
    return SentJobs(
        plan=_changed_plan(plan, before, after),
        jobs=[
            replace(
                jobs[place],
                partition=sent.partitions[sent.partition[place]],
                minutes=ceil(sent.time_limit[place] / MINUTE),
                seconds=min(jobs[place].seconds, float(sent.run_time[place])),
            )
            for place in places
        ],
        places=places,
        sentences=sentences,
    )


def changed_cluster(cluster: DescribedCluster, change: str) -> DescribedCluster:
    """A cluster after changes with `;` between."""
    for each in filter(None, map(str.strip, change.split(";"))):
        cluster = changed(cluster, each)
    return cluster


def _described(plan: ClusterPlan, release: SlurmRelease) -> DescribedCluster:
    """What the slurm.conf that is written of a plan says."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("etc", "run"):
            folder.joinpath(each).mkdir()
        write_slurm_conf(folder, plan, FIRST_PORT, release.number)
        return read_cluster(folder / "etc")


def _changed_plan(
    plan: ClusterPlan, before: DescribedCluster, after: DescribedCluster
) -> ClusterPlan:
    """The plan whose slurm.conf says what the changed cluster says."""
    known = before.said.settings
    options = {
        known[key].key if key in known else value.key: value.text
        for key, value in after.said.settings.items()
        if value != known.get(key)
    }
    partitions = [" ".join(_words(each)) for each in after.said.partitions]
    return replace(plan, options={**plan.options, **options}, partitions=partitions)


def _words(record: ConfRecord) -> Iterator[str]:
    for value in (record.name, *record.keys.values()):
        yield f"{'PartitionName' if value is record.name else value.key}={value.text}"


def _as_run(place: int, job: NodeJob) -> dict[str, Any]:
    """A job as if it had been started at once."""
    times = {"submit": 0.0, "eligible": 0.0, "start": 0.0, "end": job.seconds}
    return asdict(job) | {"number": place, "outcome": {"state": "COMPLETED", **times}}


#: Seconds between the beginnings of repetitions that run beside each other.
APART = 50.0


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="one sbatch line a job, gzip")
    parser.add_argument("--first", type=int, default=17000, help="place of the first job")
    parser.add_argument("--jobs", type=int, default=850)
    parser.add_argument("--speed", type=float, default=170.0, help="seconds of the log in one")
    parser.add_argument("--change", default="", help="of slurm.conf, as what-if takes it")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="repetitions beside each other")
    parser.add_argument("--release", choices=sorted(RELEASES), default="26.05")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write."""
    chosen = options(arguments)
    release = RELEASES[chosen.release]
    if missing := missing_release(release):
        sys.exit(missing)
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, chosen.speed)
    sent = sent_under(chosen.change, cluster_plan(chosen.speed), jobs, release)
    for sentence in sent.sentences:
        tell(sentence)
    folders = [chosen.output / f"rep{number + 1}" for number in range(chosen.repetitions)]
    _run_missing(chosen, sent, folders)
    runs = [json.loads(_path(folder).read_text()) for folder in folders]
    result = {"repetitions": [figures_of(run) for run in runs], "noise": noise_of(runs)}
    text = json.dumps(result, indent=2) + "\n"
    write_whole(chosen.output / "node-hours.json", text)
    print(text, end="")
    return 0


def _run_missing(chosen: argparse.Namespace, sent: SentJobs, folders: Sequence[Path]) -> None:
    jobs = sent.jobs
    head = {
        **{name: getattr(chosen, name) for name in ("first", "speed", "release", "change")},
        "log": chosen.log.name,
        "places": list(sent.places),
        "sentences": sent.sentences,
        "asked": [asdict(job) for job in jobs],
    }
    missing = [folder for folder in folders if not _is_kept(folder, head)]

    def run(folder: Path, stop: Event) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        found = replay(folder.name, chosen.release, jobs, sent.plan, folder, stop, submitted)
        write_whole(_path(folder), json.dumps({**head, **found}) + "\n")
        tell(f"{folder.name}: done")

    with parts_bar("jobs submitted", len(missing) * len(jobs)) as submitted:
        side_by_side(run, missing, chosen.at_once, APART)


def _is_kept(folder: Path, head: Mapping[str, Any]) -> bool:
    """Whether it holds these jobs under this change."""
    path = _path(folder)
    kept = json.loads(path.read_text()) if path.exists() else {}
    return bool(kept.get("asked") == head["asked"] and kept.get("change", "") == head["change"])


def _path(folder: Path) -> Path:
    return folder / "jobs.json"


if __name__ == "__main__":
    sys.exit(main())
