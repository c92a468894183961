"""Memory and counted GPUs on a real OpenPBS: requests, what is free, `explain`, and the reserve.

`make test-pbs` asks for these. They give the machine's own host other vnodes for a while.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.pbs.setup import setup_steps
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from tests.architecture.markdown_documents import TOP
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.openpbs_server import InstalledPbs, pbs_adapter, set_up_server

pytestmark = pytest.mark.real

USER = "alice"
BATCH, OTHER, SHELL = "rl_gpu_batch", "rl_gpu_long", "rl_gpu_shell"
GPUS = 4
#: Of the machine's vnode, as a site would set them.
HAS = {"ncpus": 16, "mem": "8gb", "ngpus": GPUS}
ON_PBS = '\n[batch_system]\nadapter = "pbs"\n'
BY_QUEUE = f"""
[reserve]
mechanism = "max_run_res"
queues = ["{BATCH}"]
most_processors = 2
most_resources = ["ngpus=2", "mem=1G"]
change_seconds = 1
"""


@contextmanager
def counted_gpus(server: InstalledPbs) -> Iterator[None]:
    """A machine of these resources; `ngpus` is the site's own, and its scheduler looks at it."""
    node = server.run("pbsnodes", "-a").stdout.split()[0]
    server.qmgr("create resource ngpus type=long,flag=nh", check=False)
    config = (server.files / "sched_config").read_text()
    looked_at = config if "ngpus" in config else config.replace('"ncpus,', '"ncpus, ngpus,')
    try:
        for name, amount in HAS.items():
            server.qmgr(f"set node {node} resources_available.{name} = {amount}")
        with server.changed("sched_config", looked_at):
            yield
    finally:
        server.delete_all()
        for name in HAS:
            server.qmgr(f"unset node {node} resources_available.{name}", check=False)
        server.qmgr("delete resource ngpus", check=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InstalledPbs]:
    """Sorted by our score; a batch queue, another, and one of interactive jobs."""
    score, default, *_, formula = setup_steps("", tmp_path / "heartbeat", None, tmp_path)
    with set_up_server([score, default, formula], USER) as server, counted_gpus(server):
        server.create_queues(BATCH, OTHER, SHELL)
        server.qmgr("set server scheduling = True")
        yield server
        server.delete_all()
        server.delete_queues(BATCH, OTHER, SHELL)


def submit(server: InstalledPbs, select: str, *options: str, walltime: str = "00:10:00") -> str:
    given = ("-l", f"select={select}", "-l", f"walltime={walltime}", *options)
    return server.submit(*given, user=USER, seconds=120)


def runs(server: InstalledPbs, job: str, seconds: float = 30) -> None:
    server.wait_until(lambda: server.state(job) == "R", seconds, f"start of {job}")


def free_of_pbs(server: InstalledPbs) -> list[float]:
    """Of CPUs, MiB and GPUs, by `pbsnodes`."""
    told = json.loads(server.run("pbsnodes", "-a", "-F", "json").stdout)["nodes"]
    (node,) = told.values()
    has, taken = node["resources_available"], node["resources_assigned"]
    memory = [float(each["mem"].removesuffix("kb").removesuffix("gb")) for each in (has, taken)]
    megabytes = memory[0] * 1024 if has["mem"].endswith("gb") else memory[0] / 1024
    return [
        float(has["ncpus"] - taken["ncpus"]),
        megabytes - memory[1] / 1024,
        float(has["ngpus"] - taken["ngpus"]),
    ]


def test_requests_and_what_is_free_are_what_pbs_says(server: InstalledPbs, tmp_path: Path) -> None:
    first = submit(server, "1:ncpus=1:ngpus=2:mem=500mb")
    second = submit(server, "1:ncpus=2:ngpus=1:mem=1gb", "-l", "place=pack")
    for job in (first, second):
        runs(server, job)
    asked = {
        submit(server, "1:ncpus=1:ngpus=2:mem=500mb"): ([1.0, 500.0, 2.0], False),
        submit(server, "2:ncpus=2:ngpus=2:mem=1gb"): ([4.0, 2048.0, 4.0], False),
        submit(server, "1:ncpus=1", "-l", "place=excl"): ([1.0, 0.0, 0.0], True),
    }
    server.wait_until(
        lambda: all(server.told(job, "comment") for job in asked), 30, "look of the scheduler"
    )
    snapshot = pbs_adapter(server, USER).snapshot()
    jobs, now = snapshot.pending.jobs, snapshot.resources
    assert jobs.requests is not None
    assert now is not None
    assert jobs.requests.names == now.names == BASIC_RESOURCES
    rows = zip(jobs.requests.total.tolist(), jobs.requests.exclusive.tolist(), strict=True)
    told = dict(zip(jobs.job_id.tolist(), rows, strict=True))
    assert told == {job_number(job): each for job, each in asked.items()}
    assert now.capacity.tolist() == [16.0, 8192.0, 4.0]
    assert now.free.tolist() == free_of_pbs(server) == [13.0, 8192.0 - 1524.0, 1.0]
    assert "ngpus" in server.told(next(iter(asked)), "comment")

    configuration = write_configuration(tmp_path, "sjf", mode="shadow", cycle=2, more=ON_PBS)
    waits = str(job_number(next(iter(asked))))
    out = typed(server, configuration, "explain", waits)
    assert "It asks for 1 processor, 500M of memory, 2 GPUs, on one node at least." in out
    assert "It waits for 2 GPUs; 1 is free on one node, none has 2 (1 on all nodes)." in out
    queue = json.loads(typed(server, configuration, "queue", "--json"))
    rows_of = {row["jobid"]: row for row in queue["jobs"]}
    assert rows_of[int(waits)]["gpus"] == 2.0
    status = typed(server, configuration, "status")
    assert "gpus: 3 of 4 in use, 6 asked for by pending jobs" in status


def typed(server: InstalledPbs, configuration: Path, verb: str, *words: str) -> str:
    """What an operator reads."""
    line = [sys.executable, "-m", "slurm_rl_plugin.cli.entry", verb, *words]
    done = subprocess.run(
        [*line, "--config", str(configuration)],
        env={**server.env, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 or verb == "status", done.stderr
    return done.stdout


def test_what_nobody_uses_of_a_node_taken_whole_is_not_free(server: InstalledPbs) -> None:
    whole = submit(server, "1:ncpus=1:ngpus=1", "-l", "place=excl")
    runs(server, whole)
    now = pbs_adapter(server, USER).snapshot().resources
    assert now is not None
    assert now.capacity.tolist() == [16.0, 8192.0, 4.0]
    assert now.free.tolist() == [0.0, 0.0, 0.0]


def limits_of(server: InstalledPbs, queue: str) -> set[str]:
    lines = server.qmgr(f"list queue {queue} max_run_res").splitlines()
    return {line.strip() for line in lines if "max_run_res" in line}


def test_an_interactive_job_gets_gpus_at_once_and_nothing_is_left(
    server: InstalledPbs, tmp_path: Path
) -> None:
    server.qmgr(f"set queue {BATCH} max_run_res.ngpus = [u:{USER}=64]")  # of the site's own
    own = limits_of(server, BATCH)
    more = BY_QUEUE + ON_PBS
    quick = submit(server, "1:ncpus=1:mem=100mb", "-q", SHELL, walltime="00:01:00")
    runs(server, quick)
    with running_hook(server, tmp_path, "reserve:2", cycle=0.5, more=more):
        wanted = own | {  # in addition to what the interactive job has
            "max_run_res.ncpus = [o:PBS_ALL=13]",
            "max_run_res.ngpus = [o:PBS_ALL=2]",
            f"max_run_res.mem = [o:PBS_ALL={(8192 - 1024 - 100) * 1024}kb]",
        }
        server.wait_until(lambda: limits_of(server, BATCH) == wanted, 30, "limit on batch jobs")
        batch = [submit(server, "1:ncpus=1:ngpus=1:mem=100mb", "-q", BATCH) for _ in range(4)]
        server.wait_until(lambda: running(server, batch) == 2, 30, "two batch jobs on GPUs")
        server.wait_until(
            lambda: any("limit on resource ngpus" in server.told(job, "comment") for job in batch),
            30,
            "word of the limit",
        )
        kept = pbs_adapter(server, USER).snapshot().pending
        assert kept.for_processors is not None
        assert kept.for_processors.all()  # our limit on GPUs keeps them back, so lifting it helps
        assert not kept.each_own_doing.any()
        shell = submit(server, "1:ncpus=1:ngpus=2:mem=100mb", "-q", SHELL, walltime="00:01:00")
        runs(server, shell, 10)
        assert running(server, batch) == 2
        server.run("qdel", "-W", "force", shell)
    assert limits_of(server, BATCH) == own
    assert not (tmp_path / "state.json.limits").exists()
    assert set(pbs_adapter(server, USER).snapshot().pending.factor.tolist()) <= {0}
    server.wait_until(lambda: running(server, batch) == GPUS, 30, "batch jobs on all GPUs")
    late = submit(server, "1:ncpus=1:ngpus=2:mem=100mb", "-q", SHELL)  # without a reserve
    server.wait_until(lambda: "ngpus" in server.told(late, "comment"), 30, "its reason")
    assert server.state(late) == "Q"


def running(server: InstalledPbs, jobs: list[str]) -> int:
    return sum(server.state(job) == "R" for job in jobs)


def test_gpus_in_use_are_kept_by_the_queue_that_has_them(
    server: InstalledPbs, tmp_path: Path
) -> None:
    """Queues report `ngpus` only with flag q, which sites do not set."""
    for _ in range(2):
        runs(server, submit(server, "1:ncpus=1:ngpus=1", "-q", BATCH))
    for _ in range(3):
        submit(server, "1:ncpus=1:ngpus=3", "-q", OTHER)
    told = json.loads(server.run("qstat", "-Q", "-f", "-F", "json", BATCH).stdout)
    assert "ngpus" not in told["Queue"][BATCH]["resources_assigned"]
    keys = LimitKeys(mechanism="max_run_res", queues=(BATCH, OTHER))
    system = pbs_adapter(server, USER, limit=keys, limits_file=tmp_path / "state.json.limits")
    system.snapshot()
    system.limit_batch({"cpus": 8, "gpus": 3})
    assert "max_run_res.ngpus = [o:PBS_ALL=2]" in limits_of(server, BATCH)
    assert "max_run_res.ngpus = [o:PBS_ALL=1]" in limits_of(server, OTHER)
    system.limit_batch(None)
    assert limits_of(server, BATCH) == limits_of(server, OTHER) == set()
    server.restart()
    assert limits_of(server, BATCH) == limits_of(server, OTHER) == set()
