"""Three classes of service on a real Slurm: who may choose one, what it changes, its utility.

`pytest -s tests/real/test_classes_of_service.py` prints a table (docs/research/reactive-grids.md).
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.utility.time_utility import time_utility
from tests.real.conftest import private_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.load import Outcome, mean, outcomes
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import FIFO_PLAN, MODEL

pytestmark = pytest.mark.real

PLAN = replace(
    FIFO_PLAN,
    nodes=1,
    processors_per_node=8,
    options={**FIFO_PLAN.options, "AccountingStorageEnforce": "associations,limits,qos"},
)

#: Seconds until the deadline of an urgent job.
DUE = 90.0
CLASSES = {
    **BUILT_IN,
    "interactive": UtilityClass(form="exponential", alpha=1.0, sigma=30.0, interactive=True),
    "urgent": UtilityClass(form="deadline", hours=DUE / 3600, interactive=True, users=True),
}
SITE = f"""
[shares]
physics = 0.5
biology = 0.5

[utility.interactive]
alpha = 1.0
sigma = 30

[utility.urgent]
form = "deadline"
hours = {DUE / 3600}
interactive = true
users = true

[[job_class]]
class = "interactive"
time_limit_at_most = 60
"""
#: Each user's interactive jobs, of whatever class, hold two processors at most.
RESERVE = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 3
account_share = 0.66
user_share = 0.66
change_seconds = 1
"""
HELD = 2
USERS = {"alice": "physics", "bob": "biology"}
#: Seconds from the first submission until the machine is free.
FREE_AFTER = 45.0
#: What a job is: its class, the jobs of it, and the seconds that each runs.
LOAD = {
    "interactive": (16, (1, 3)),
    "urgent": (14, (4, 6)),
    "own deadline": (4, (4, 6)),
    "not allowed": (6, (4, 6)),
    "batch": (30, (10, 20)),
}

CLASS_OF = {"own deadline": "urgent", "not allowed": "batch"}
HEADS = ("utility, Slurm alone", "utility, daemon", "wait, Slurm alone", "wait, daemon")


#: One node of 8 processors, first come, first served; batch jobs have a QOS.
cluster = private_slurm(PLAN, lambda slurm: slurm.add_qos("batch"))


def submit(cluster: PrivateSlurm, kind: str, user: str, seconds: float) -> int:
    """A job of a kind of LOAD; only interactive ones have a short time limit."""
    due = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + DUE - 10.0))  # noqa: TID251
    options = {
        "urgent": ("--comment=slurm-rl:class=urgent",),
        "own deadline": (f"--comment=slurm-rl:deadline={due}",),
        "not allowed": ("--qos=batch", "--comment=slurm-rl:class=interactive"),
        "batch": ("--qos=batch",),
    }.get(kind, ())
    minutes = 1 if kind == "interactive" else 10
    return cluster.submit(
        *options, user=user, account=USERS[user], minutes=minutes, seconds=seconds
    )


@contextmanager
def full_machine(cluster: PrivateSlurm) -> Iterator[int]:
    """A job on all processors; afterwards nothing is in the queue."""
    job = cluster.submit("--qos=batch", user="alice", account="physics", processors=8)
    cluster.wait_state(job, "RUNNING", 30)
    try:
        yield job
    finally:
        for user in USERS:
            cluster.run("scancel", "-u", user)
        cluster.wait_empty(30)


def explained(cluster: PrivateSlurm, folder: Path, job: int) -> dict[str, Any]:
    done = cluster.slurm_rl("explain", str(job), "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def last_order(hook: RunningHook, jobs: list[int]) -> list[int]:
    """The last whole order that was decided, of these jobs."""
    orders = [line["order"] for line in hook.audit if line["event"] == "cycle"]
    return [job for job in orders[-1] if job in jobs]


def test_a_declared_class_goes_first_within_the_bound_of_its_user(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    with full_machine(cluster):
        batch = [submit(cluster, "batch", "bob", 300) for _ in range(4)]
        refused = submit(cluster, "not allowed", "bob", 300)
        urgent = [submit(cluster, "urgent", "alice", 300) for _ in range(5)]
        own = submit(cluster, "own deadline", "bob", 300)
        jobs = [*batch, refused, *urgent, own]
        with running_hook(cluster, tmp_path, MODEL, cycle=1, more=RESERVE, site=SITE) as hook:
            cluster.wait_until(lambda: len(last_order(hook, jobs)) == len(jobs), 30, "an order")
            first = last_order(hook, jobs)[: HELD + 1]
            assert set(first) == {*urgent[:HELD], own}
            by_reason = 'slurm_rl_interactive_jobs_as_batch{reason="user_share"}'
            assert hook.metric(by_reason) == len(urgent) - HELD
            inside, beyond = (explained(cluster, tmp_path, urgent[each]) for each in (0, -1))
            ignored, due = (explained(cluster, tmp_path, each) for each in (refused, own))
    for found, counts in ((inside, "interactive"), (beyond, "batch")):
        assert found["class"] == counts
        assert found["utility"]["class"] == "urgent"
        assert found["utility"]["by_user"]
    assert beyond["as_batch"] == {"reason": "user_share", "most": HELD}
    assert due["utility"]["deadline"] <= due["eligible"] + DUE
    assert (ignored["class"], ignored["utility"]["class"]) == ("batch", "batch")
    assert "none of those that users may choose: urgent" in ignored["utility"]["ignored"]


def utilities(jobs: dict[int, str], done: dict[int, Outcome]) -> dict[str, list[float]]:
    """The time utility of each job, by the class that it has."""
    found: dict[str, list[float]] = {name: [] for name in CLASSES}
    for job, kind in jobs.items():
        name = CLASS_OF.get(kind, kind)
        turnaround, ran = done[job].end - done[job].submit, done[job].end - done[job].start
        if kind == "own deadline":
            utility = float(turnaround <= DUE - 10.0)
        else:
            utility = float(time_utility(np.array([turnaround]), ran, CLASSES[name].row)[0])
        found[name].append(utility)
    return found


def mean_waits(jobs: dict[int, str], done: dict[int, Outcome]) -> dict[str, float]:
    """Seconds by class, from submission to start."""
    waits: dict[str, list[float]] = {name: [] for name in CLASSES}
    for job, kind in jobs.items():
        waits[CLASS_OF.get(kind, kind)].append(done[job].start - done[job].submit)
    return {name: mean(each) for name, each in waits.items()}


def run_load(
    cluster: PrivateSlurm, blocker: int, seed: int
) -> tuple[dict[int, str], dict[int, Outcome]]:
    """Submit the load to a full machine, free it, and wait until all is done."""
    rng = random.Random(seed)
    kinds = [kind for kind, (count, _) in LOAD.items() for _ in range(count)]
    rng.shuffle(kinds)
    begun = time.monotonic()
    jobs = {
        submit(cluster, kind, rng.choice(list(USERS)), rng.randint(*LOAD[kind][1])): kind
        for kind in kinds
    }
    time.sleep(max(begun + FREE_AFTER - time.monotonic(), 0.0))
    cluster.run("scancel", str(blocker))
    cluster.wait_empty(400)
    cluster.wait_until(lambda: len(outcomes(cluster, list(jobs))) == len(jobs), 30, "accounting")
    return jobs, outcomes(cluster, list(jobs))


def served(hook: RunningHook, what: str) -> dict[str, float]:
    """`sum` or `count` of the metric of utilities, by class."""
    series = rf'slurm_rl_job_time_utility_{what}{{job_class="(\w+)"}} (\S+)'
    return {name: float(value) for name, value in re.findall(series, hook.metrics())}


def test_the_utility_of_each_class_under_slurm_alone_and_under_the_daemon(
    cluster: PrivateSlurm, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with full_machine(cluster) as blocker:
        plain = run_load(cluster, blocker, 1)
    alone = utilities(*plain)
    with (
        full_machine(cluster) as blocker,
        running_hook(cluster, tmp_path, MODEL, cycle=1, more=RESERVE, site=SITE) as hook,
    ):
        jobs, done = run_load(cluster, blocker, 1)
        ours = utilities(jobs, done)
        counts = {name: len(each) for name, each in ours.items()}
        counts["batch"] += 1  # the job that held the machine
        cluster.wait_until(lambda: served(hook, "count") == counts, 30, f"{counts} in the metrics")
        sums = served(hook, "sum")
    waits = (mean_waits(*plain), mean_waits(jobs, done))
    rows = [f"| class | jobs | {' | '.join(HEADS)} |"]
    for name in ours:
        figures = (mean(alone[name]), mean(ours[name]), waits[0][name], waits[1][name])
        rows.append(f"| {name} | {len(ours[name])} | {' | '.join(f'{x:.2f}' for x in figures)} |")
    record_property("utilities", rows)
    print("\n".join(rows))  # noqa: T201
    assert {each.state for each in done.values()} == {"COMPLETED"}
    for name in ("interactive", "urgent"):
        assert sums[name] == pytest.approx(sum(ours[name]), abs=0.01)
        assert mean(ours[name]) > mean(alone[name])
