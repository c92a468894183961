"""A small site of several resources, with a week of jobs as an event file; and a busy machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
