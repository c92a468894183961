"""A small site of several resources: its slurm.conf, and a week of jobs as an event file."""

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
