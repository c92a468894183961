"""Small parts that tests share: a site of several resources, a busy machine, networks, a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.site import SITE, FeatureSchema
from slurm_rl_plugin.learning.site_utility import export_site_utility
from slurm_rl_plugin.papers.study.trials import SEGMENT_JOBS
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.simulator.workloads.generators import mmn_log

CONF = """ClusterName=small
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SchedulerParameters=bf_interval=30
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=n[1-3] CPUs=8 RealMemory=16000
NodeName=g1 CPUs=8 RealMemory=16000 Gres=gpu:2
PartitionName=all Nodes=n[1-3],g1 Default=YES MaxTime=2-00:00:00 DefMemPerCPU=1000
"""
LINE = (
    "-dt {at:.2f} -e submit_batch_job | -sim-walltime {ran:.2f} --uid={who} -J j{job} -N 1 "
    "-n {wide} -t {asked} --mem={memory}M {gpus}-p all pseudo.job"
)


def write_small_site(folder: Path, jobs: int = 400) -> None:
    """Jobs of four users within six days, some of them for GPUs or much memory."""
    rng = np.random.default_rng(3)
    (folder / "slurm.conf").write_text(CONF)
    came = np.sort(rng.uniform(0.0, 6 * 86400.0, jobs))
    lines = []
    for job, at in enumerate(came.tolist()):
        ran = float(np.ceil(rng.lognormal(8.0, 1.5)))
        gpus = "--gres=gpu:1 " if rng.random() < 0.1 else ""
        asked = int(np.ceil(min(ran * rng.choice([1.5, 6.0]), 172_800.0) / 60))
        words = {"at": at, "ran": min(ran, 80_000.0), "who": f"u{rng.integers(4)}", "job": job}
        wide, memory = int(rng.choice([1, 4, 8])), int(rng.choice([500, 4000, 15000]))
        lines.append(LINE.format(**words, wide=wide, asked=asked, memory=memory, gpus=gpus))
    (folder / "week.events").write_text("\n".join(lines) + "\n")


#: Of the machine of `write_busy_log`.
BUSY_CPUS = 16
_DAYS, _JOBS = 40, 3000


def write_busy_site(folder: Path, *lines: str) -> None:
    """`log.swf` of `write_busy_log` and a `slurm.conf` of its machine, with further lines."""
    write_busy_log(folder / "log.swf")
    nodes = f"NodeName=n[1-{BUSY_CPUS}] CPUs=1\nPartitionName=all Nodes=ALL Default=YES\n"
    head = "ClusterName=small\nSelectTypeParameters=CR_Core\n"
    (folder / "slurm.conf").write_text(head + "".join(f"{line}\n" for line in lines) + nodes)


def write_busy_log(path: Path, seed: int = 2) -> None:
    """Many short narrow jobs and a few wide long ones, about as many as the machine bears.

    Their limits are one and a half times their run times.
    """
    rng, lines = np.random.default_rng(seed), [f"; MaxProcs: {BUSY_CPUS}"]
    submit = np.sort(rng.uniform(0.0, _DAYS * 86400.0, _JOBS))
    wide = rng.random(len(submit)) < 0.06
    run = np.where(wide, rng.uniform(7200, 36000, len(submit)), rng.uniform(60, 1800, len(submit)))
    for job, (at, ran, many) in enumerate(zip(submit, run, wide, strict=True), start=1):
        cpus = int(rng.integers(8, BUSY_CPUS + 1)) if many else 1
        limit = int(ran * 1.5)
        account = int(rng.integers(1, 4))
        fields = [job, int(at), -1, int(ran), cpus, -1, -1, cpus, limit, -1, 1, account, account]
        lines.append(" ".join(map(str, [*fields, -1, 1, 1, -1, -1])))
    path.write_text("\n".join(lines) + "\n")


def small_network(hidden: int = 3, seed: int = 1, *, sees_history: bool = False) -> QNetwork:
    """Random weights, none for past runs unless asked."""
    parameters = np.random.default_rng(seed).normal(size=parameter_count(SITE, hidden))
    network = network_from_parameters(SITE, parameters, hidden=hidden, scaler=fixed_scaler(SITE))
    if not sees_history:
        network.job_weights[-len(SITE.history_jobs) :] = 0.0
        network.linear[-len(SITE.history_jobs) :] = 0.0
    return network


MEDIANS = ClassMedian(interactive_median=60.0, batch_median=3600.0)


def write_site_utility_model(path: Path) -> Path:
    """The model whose score falls with usage over share, whatever else is seen; its path."""
    parameters = np.zeros(parameter_count(SITE, 1))
    parameters[-len(SITE.jobs) :][SITE.jobs.index("share_doublings")] = -1.0
    network = network_from_parameters(SITE, parameters, hidden=1, scaler=fixed_scaler(SITE))
    export_site_utility(network, path, MEDIANS)
    return path


#: Segments 0 to 21.
JOBS = 22 * SEGMENT_JOBS


def lpc_like_log() -> JobLog:
    """Sequential jobs of four accounts, in whole seconds."""
    return mmn_log(np.random.default_rng(7), interactive=0.5, processors=60, jobs=JOBS)


def by_run_time(schema: FeatureSchema, preference: float = -1.0) -> QNetwork:
    """A paper's network that scores by the logarithm of the run time alone: shortest first."""
    parameters = np.zeros(parameter_count(schema, 1))
    parameters[-1] = preference
    halves = tuple(np.full(size, 0.5) for size in (8, 8, 3, 3))
    return network_from_parameters(
        schema, parameters, hidden=1, scaler=halves, activation="sigmoid"
    )
