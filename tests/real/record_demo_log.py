"""Record the accounting log of the demo: a few minutes of a small real Slurm under load.

    python -m tests.real.record_demo_log slurm_rl_plugin/cli/demo/logs

Two accounts (physics 70 %, biology 30 %) share 8 processors. The log has the 26 fields of
XDMoD's `sacct` dump and no header; a manifest next to it says where it comes from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

FIELDS = (
    "jobid,jobidraw,cluster,partition,qos,account,group,gid,user,uid,submit,eligible,start,end,"
    "elapsed,exitcode,state,nnodes,ncpus,reqcpus,reqmem,reqtres,alloctres,timelimit,nodelist,jobname"
)
CLUSTER = "demo"
SACCT = (
    *("sacct", "--clusters", CLUSTER, "--allusers", "--parsable2", "--noheader"),
    *("--allocations", "--duplicates", "--format", FIELDS),
)
ACCOUNTS = {
    "physics": Account(share=70, users=("alice", "carol")),
    "biology": Account(share=30, users=("bob", "dave")),
}
INTERACTIVE_NAMES = ("notebook", "debug", "plot", "check | view", "shell")
BATCH_NAMES = ("simulate", "align", "reconstruct", "fit|scan", "render")
DRAIN_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job to submit `pause` seconds after the one before."""

    pause: float
    account: str
    user: str
    processors: int
    minutes: int
    seconds: float
    name: str


def draw_submissions(jobs: int, seed: int) -> list[Submission]:
    """Jobs of mixed class; biology, with the smaller share, submits as much as physics."""
    draw = random.Random(seed)
    return [_draw_one(draw) for _ in range(jobs)]


def _draw_one(draw: random.Random) -> Submission:
    account = draw.choice(sorted(ACCOUNTS))
    interactive = draw.random() < 0.65
    return Submission(
        # Bursts with gaps, so that a queue builds up and drains again.
        pause=draw.expovariate(1 / 4.0) if draw.random() < 0.12 else draw.uniform(0.02, 0.25),
        account=account,
        user=draw.choice(ACCOUNTS[account].users),
        processors=1 if interactive else draw.choice((1, 1, 1, 2, 2, 2)),
        minutes=1 if interactive else draw.randint(5, 10),
        seconds=draw.uniform(1, 2) if interactive else draw.uniform(5, 15),
        name=draw.choice(INTERACTIVE_NAMES if interactive else BATCH_NAMES),
    )


def record(submissions: list[Submission], cluster: PrivateSlurm) -> str:
    """Submit everything, wait for the end, and return the dump."""
    for job in submissions:
        time.sleep(job.pause)
        cluster.submit(
            user=job.user,
            account=job.account,
            processors=job.processors,
            minutes=job.minutes,
            seconds=job.seconds,
            name=job.name,
        )
    cluster.wait_until(
        lambda: not cluster.run("squeue", "-h").stdout, DRAIN_SECONDS, "all jobs ended"
    )
    cluster.wait_until(
        lambda: len(_dump(cluster).splitlines()) >= len(submissions), 20, "all jobs in sacct"
    )
    return _dump(cluster)


def _dump(cluster: PrivateSlurm) -> str:
    return cluster.run(*SACCT, "--starttime", "now-1hour", env={"TZ": "UTC"}).stdout


def main() -> None:
    """Write cluster-sacct.log and its manifest into the folder named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = ClusterPlan(accounts=ACCOUNTS, options={"ClusterName": CLUSTER})
    directory = Path(tempfile.mkdtemp(prefix="private-slurm-"))
    directory.chmod(0o755)
    try:
        with PrivateSlurm(directory, plan) as cluster:
            release = cluster.run("sinfo", "--version").stdout.strip()
            dump = record(draw_submissions(options.jobs, options.seed), cluster)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    log = options.folder / "cluster-sacct.log"
    log.write_text(dump)
    manifest = {
        "date": datetime.now(UTC).date().isoformat(),
        "slurm": release,
        "recorded_by": f"tests/real/record_demo_log.py --jobs {options.jobs} --seed {options.seed}",
        "command": "TZ=UTC " + subprocess.list2cmdline([*SACCT, "--starttime", "now-1hour"]),
        "seed": options.seed,
        "jobs": len(dump.splitlines()),
        "processors": plan.nodes * plan.processors_per_node,
        "shares": {name: account.share for name, account in ACCOUNTS.items()},
        "sha256": hashlib.sha256(dump.encode()).hexdigest(),
    }
    log.with_suffix(".json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
