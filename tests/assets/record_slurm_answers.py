"""Record what the commands of a real Slurm answer about a prepared queue.

    python -m tests.assets.record_slurm_answers [RELEASE ...]

Takes the installed release, or those named, such as 24.11 26.05. Writes one file a command to
tests/assets/slurm/RELEASE, so that the parsers are tested against each release without its
daemons. Needs what tests/real needs.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

from slurm_rl_plugin.accounting.sacct.fields import SACCT_COMMAND, marked_format
from slurm_rl_plugin.batch_systems.slurm.answers.fields import SINFO, queue_fields, queue_format
from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
    SHOW_ASSOCIATIONS,
    SHOW_NODES,
    SHOW_NODES_NOW,
    SHOW_PARTITIONS,
    SHOW_QOS,
    SHOW_USERS,
    SSHARE,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SDIAG, SHOW_CONFIG
from slurm_rl_plugin.batch_systems.slurm.offers import PARTITIONS, TEST_ONLY
from slurm_rl_plugin.batch_systems.slurm.queue.reader import SACCT, SQUEUE
from slurm_rl_plugin.batch_systems.slurm.site_factor import SPRIO
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.machine_plan import LIMITS
from tests.real.machine_plan import PLAN as MACHINE_PLAN
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import RELEASES, SlurmRelease, missing_release

MARK = "recorded"
ASSETS = Path(__file__).parent / "slurm"
PAST = (*SACCT, "-S", "now-3600seconds", "-E", "now")
#: The documented command to export a log, without the variable that it begins with.
LOG = ("sacct", *SACCT_COMMAND.replace("<start>", "now-3600seconds").split(" sacct ")[1].split())
PLAN = ClusterPlan(
    accounts=ACCOUNTS,
    lines=["PartitionName=open Nodes=ALL MaxTime=UNLIMITED PriorityTier=3 State=UP"],
)
#: Name of the file -> options of a will-run test.
TESTS: dict[str, tuple[str, ...]] = {
    "starts": ("--ntasks=1", "--time=10"),
    "too-large": ("--ntasks=1000",),
    "no-partition": ("--ntasks=1", "--partition=nope"),
    "no-gres": ("--ntasks=1", "--gres=gpu:1"),
}
#: Options of sbatch of jobs that ask for more than processors.
REQUESTS = (
    ("--ntasks=2", "--mem-per-cpu=300"),
    ("--nodes=2", "--ntasks=2", "--mem=3G"),
    ("--nodes=2", "--ntasks=2", "--gres=gpu:a100:2"),
    ("--ntasks=1", "--gpus=a100:1"),
    ("--ntasks=3", "--cpus-per-task=2", "--gpus-per-task=1"),
    ("--ntasks=1", "--gres=gpu:1", ":", "--ntasks=2", "--gres=gpu:1"),
    ("--ntasks=1", "--exclusive", "--licenses=matlab:2,ansys"),
    ("--ntasks=1", "--constraint=big|(ib&big)"),
)
#: Name of the case -> options of sbatch; all are pending while the partitions are down.
CASES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "pipe | and\nnewline": (),
    "nice": ("--nice=50",),
    "held": ("--hold",),
    "begins later": ("--begin=now+1hour",),
    "priority by hand": ("--priority=5000",),
    "array": ("--array=1-20%5",),
    "two partitions": ("--partition=batch,short",),
    "two partitions by hand": ("--partition=batch,short", "--priority=77"),
    "no limit known": ("--time=UNLIMITED", "--partition=open"),
    "heterogeneous": ("--ntasks=3", ":", "--ntasks=2", ":", "--partition=short"),
    "split array": ("--array=1-4",),
}


def prepare(cluster: PrivateSlurm) -> dict[str, int]:
    """Fill the queue; case -> job id."""
    jobs = {
        "ended": cluster.submit(user="bob", account="biology", seconds=1, name="ended"),
        "whole node": cluster.submit(
            "--exclusive", user="bob", account="biology", seconds=1, name="whole node"
        ),
    }
    cluster.wait_until(lambda: _states(cluster) == "", 20, "jobs that ended")
    cluster.wait_until(
        lambda: cluster.run(*PAST).stdout.count("COMPLETED") == 2, 30, "jobs in accounting"
    )
    running = cluster.submit(user="bob", account="biology", processors=3, name="running")
    cluster.wait_until(lambda: "RUNNING" in _states(cluster), 20, "a running job")
    for partition in ("batch", "short", "open"):
        cluster.set_partition("down", partition)
    jobs["running"] = running
    for name, options in CASES.items():
        jobs[name] = cluster.submit(*options, user="alice", account="physics", name=name)
    after = f"--dependency=afterok:{running}"
    jobs["dependency"] = cluster.submit(after, user="alice", account="physics", name="dependency")
    cluster.run("scontrol", "update", f"jobid={jobs['split array']}_2", "nice=7")
    last = str(jobs["split array"])
    cluster.wait_until(
        lambda: last in cluster.run("sprio", "-h", "-o", "%i").stdout.split(), 10, "eligible jobs"
    )
    cluster.run("scontrol", "update", f"jobid={jobs['plain']}", "sitefactor=1234")
    return jobs


def _states(cluster: PrivateSlurm) -> str:
    return cluster.run("squeue", "-h", "-o", "%T").stdout


def record(cluster: PrivateSlurm) -> dict[str, str]:
    """File name -> its text."""
    jobs = prepare(cluster)
    times = {"SLURM_TIME_FORMAT": "%s"}
    form = times | queue_format(MARK)
    answers = {
        "squeue.txt": cluster.run(*SQUEUE, "--states", "all", env=form).stdout,
        "sprio.txt": cluster.run(*SPRIO).stdout,
        "sshare.txt": cluster.run(*SSHARE).stdout,
        "sinfo.txt": cluster.run(*SINFO).stdout,
        "sacct.txt": cluster.run(*PAST, env=times).stdout,
        "sacct-log.txt": cluster.run(*LOG, env=marked_format("0123456789abcdef")).stdout,
        "config.txt": _anonymous(cluster, cluster.run(*SHOW_CONFIG).stdout),
        "sdiag.txt": cluster.run(*SDIAG).stdout.partition("\nRemote Procedure Call")[0] + "\n",
        "jobs.json": json.dumps(jobs, indent=2) + "\n",
    }
    changes = [f"update jobid={job} sitefactor=5\n" for job in (jobs["plain"], 999999)]
    unknown = cluster.run("scontrol", stdin="".join(changes), check=False)
    denied = cluster.run("scontrol", stdin=changes[0], user="alice", check=False)
    for name, options in TESTS.items():
        done = cluster.run(*TEST_ONLY, *options, env=times, check=False)
        answers[f"will-run-{name}.txt"] = _describe(done)
    answers["partitions.txt"] = cluster.run(*PARTITIONS).stdout
    answers["scontrol-unknown.txt"] = _describe(unknown)
    answers["scontrol-denied.txt"] = _describe(denied)
    return answers


def record_machine(cluster: PrivateSlurm) -> dict[str, str]:
    """Answers about nodes, partitions and limits; file name -> its text."""
    requests = _requests(cluster)  # before the limits, which some of these jobs are above
    for words in LIMITS:
        cluster.run("sacctmgr", "-i", *words)
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=a Gres=gpu:9")
    commands = {
        "config": SHOW_CONFIG,
        "nodes": SHOW_NODES,
        "partitions": SHOW_PARTITIONS,
        "qos": SHOW_QOS,
        "associations": SHOW_ASSOCIATIONS,
        "users": SHOW_USERS,
        "sinfo": SHOW_NODES_NOW,
    }
    told = {name: _anonymous(cluster, cluster.run(*each).stdout) for name, each in commands.items()}
    told["nodes"] = re.sub(r"(?<=OS=Linux) .*?(?=  )", "", told["nodes"])
    return {f"machine-{name}.txt": text for name, text in (told | requests).items()}


def _requests(cluster: PrivateSlurm) -> dict[str, str]:
    """What waiting jobs ask of nodes; file name -> its text."""
    for options in REQUESTS:
        cluster.submit(*options, "--partition=gpu", user="alice", account="physics")
    fields = queue_fields(requests=True, release=cluster.number)
    form = {"SLURM_TIME_FORMAT": "%s"} | queue_format(MARK, fields)
    return {"squeue": cluster.run(*SQUEUE, env=form).stdout}


def _anonymous(cluster: PrivateSlurm, text: str) -> str:
    """The answer without the names of this machine and its folders."""
    host = socket.gethostname().partition(".")[0]
    text = text.replace(str(cluster.directory), "/var/lib/slurm")
    return re.sub(rf"\b{re.escape(host)}\b", "head", text)


def _describe(done: subprocess.CompletedProcess[str]) -> str:
    return f"status {done.returncode}\n--- stdout\n{done.stdout}--- stderr\n{done.stderr}"


def write_answers(release: SlurmRelease | None) -> None:
    """Start a cluster, record, and write the files."""
    if reason := release and missing_release(release):
        sys.exit(reason)
    with running_slurm(PLAN, release) as cluster:
        answers = record(cluster)
        major, minor = cluster.number
    with running_slurm(MACHINE_PLAN, release) as cluster:
        answers |= record_machine(cluster)
    folder = ASSETS / f"{major}.{minor:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in answers.items():
        folder.joinpath(name).write_text(text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_answers(RELEASES[name])
    if not sys.argv[1:]:
        write_answers(None)
