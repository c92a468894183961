"""Train and evaluate straight from a real slurmdbd, by the real sacct, sshare and sinfo."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.batch_systems.slurm.own_accounting import Stretch, read_accounting_dump
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from tests.real.conftest import running_slurm, skip_without_daemons
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

TOP = Path(__file__).parents[2]
PLAN = ClusterPlan(
    processors_per_node=12,
    accounts={
        "physics": Account(share=70, users=("alice", "carol")),
        "biology": Account(share=30, users=("bob",)),
        "idle": Account(share=100, users=()),
    },
)
SINGLE, TASKS, BEGIN = 48, 8, 8
#: Jobs that ran: single ones, the tasks of an array, and the late one.
RAN = SINGLE + TASKS + 1


@pytest.fixture(scope="module")
def finished() -> Iterator[tuple[PrivateSlurm, str, int]]:
    """A cluster after a short load, when it began, and the number of the job with a begin time."""
    skip_without_daemons()
    with running_slurm(PLAN) as slurm:
        since = datetime.now().replace(microsecond=0)
        late = submit_load(slurm)
        slurm.wait_empty(60)
        slurm.wait_until(lambda: ended(slurm, since) >= RAN + 1, 30, "all jobs in accounting")
        yield slurm, since.isoformat(), late


def submit_load(slurm: PrivateSlurm) -> int:
    """Jobs of three users in two accounts; the number of the one with a begin time."""
    rng = random.Random(4)
    held = slurm.submit("--hold", user="alice")
    late = slurm.submit(f"--begin=now+{BEGIN}", user="bob", seconds=1)
    slurm.submit(f"--array=1-{TASKS}", user="carol", seconds=1)
    for number in range(SINGLE):
        slurm.submit(
            user=("alice", "carol", "bob")[number % 3],
            processors=rng.randint(1, 2),
            minutes=rng.choice([1, 20]),
            seconds=rng.randint(1, 2),
        )
    slurm.run("scancel", str(held))
    return late


def ended(slurm: PrivateSlurm, since: datetime) -> int:
    return dump(slurm, [Stretch(begin=since, end=datetime.now())]).count("\n") - 1


def dump(slurm: PrivateSlurm, stretches: list[Stretch]) -> str:
    stretches = [
        Stretch(begin=each.begin.replace(microsecond=0), end=each.end.replace(microsecond=0))
        for each in stretches
    ]
    runner = CommandRunner(environment=slurm.env, timeout=20)
    text = read_accounting_dump(runner, stretches, lambda _done, _lines: None).text
    return re.sub(r"\b[0-9a-f]{16}:(?=\d)", "", text)  # each dump has a mark of its own


def slurm_rl(slurm: PrivateSlurm, *words: str) -> str:
    done = slurm.slurm_rl(*words, timeout=300)  # the first run compiles the simulator
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_evaluate_reads_the_jobs_the_size_and_the_shares(
    finished: tuple[PrivateSlurm, str, int], tmp_path: Path
) -> None:
    slurm, since, late = finished
    kept = tmp_path / "kept.log"
    words = ["--since", since, "--policy", "native", "--policy", "fifo", "--json"]
    out = slurm_rl(slurm, "evaluate", "--from", "slurm", *words, "--keep", str(kept))
    document: dict[str, Any] = json.loads(out)
    log = document["log"]
    assert (log["records"], log["ran"], log["dropped"]) == (RAN + 1, RAN, {"never ran": 1})
    assert (log["processors"], log["processors_from"]) == (24, "sinfo")
    assert log["shares"] == pytest.approx({"physics": 0.7, "biology": 0.3})
    jobs, _ = SacctReader().read(kept)
    assert Counter(jobs.users[user] for user in jobs.user) == {"alice": 16, "carol": 24, "bob": 17}
    assert len(set(jobs.job_id.tolist())) == RAN  # each task of the array by its own number
    mine = jobs.job_id.tolist().index(late)
    assert jobs.eligible[mine] - jobs.submit[mine] == BEGIN
    native = document["policies"]["native"]
    assert log["eligible_later"] >= 1
    assert native["mean_wait"] == pytest.approx((jobs.start - jobs.eligible).mean())
    assert native["mean_wait_since_submit"] == pytest.approx((jobs.start - jobs.submit).mean())


def test_train_makes_a_model_of_them(
    finished: tuple[PrivateSlurm, str, int], tmp_path: Path
) -> None:
    slurm, _, _ = finished
    model = tmp_path / "site.onnx"
    small = ["--steps", "1", "--hidden", "2", "--runs", "1", "-o", str(model)]
    said = slurm_rl(slurm, "train", "--from", "slurm", "--since", "2025-01-01", *small)
    assert f"{RAN + 1} jobs ended 2025-01-01T00:00:00" in said
    assert "shares: biology=0.3, physics=0.7 (Slurm's own, from sshare" in said
    assert model.stat().st_size > 0
    (source,) = json.loads(model.with_suffix(".json").read_text())["sources"]
    assert (source["records"], source["jobs"], source["processors"]) == (RAN + 1, RAN, 24)
    assert len(source["commands"]) >= 12 * (datetime.now().year - 2025)  # a month each


def test_stretches_that_cut_through_jobs_give_each_once(
    finished: tuple[PrivateSlurm, str, int],
) -> None:
    slurm, since, _ = finished
    begin, end = datetime.fromisoformat(since), datetime.now()
    one = dump(slurm, [Stretch(begin=begin, end=end)]).splitlines()
    second = timedelta(seconds=1)
    cuts = [begin + step * second for step in range(2, 14, 2)]  # while jobs ran
    begins = [begin, *cuts]
    ends = [*(cut - second for cut in cuts), end]
    pieces = [Stretch(begin=first, end=last) for first, last in zip(begins, ends, strict=True)]
    assert Counter(dump(slurm, pieces).splitlines()) == Counter(one)
