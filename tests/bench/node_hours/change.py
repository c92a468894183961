"""A change of slurm.conf on the private cluster, and the jobs as they are sent to it then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.machine_files.statements import ConfRecord
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.what_if.variant import admitted
from tests.bench.node_hours.load import NodeJob
from tests.bench.node_hours.simulated import log_of
from tests.real.cluster_files import FIRST_PORT, ClusterPlan, write_slurm_conf
from tests.real.slurm_releases import SlurmRelease


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
