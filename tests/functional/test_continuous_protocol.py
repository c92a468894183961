"""`slurm-rl evaluate --protocol continuous` as a user types it, on a small log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    Replayed,
    ratios_to,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.load_windows import LEFT_OUT
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import DAY
from tests.functional.typed import Typed

POLICIES = ["--policy", "sjf", "--policy", "wfp3"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """6,000 jobs of two users on 32 processors, with limits two to eight times the run time."""
    rng, count = np.random.default_rng(5), 6000
    run_time = np.ceil(rng.lognormal(6.0, 1.5, count))
    processors = rng.choice([1, 2, 4, 8, 32], count, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    gap = float((run_time * processors).mean()) / 32 / 0.85
    submit = np.floor(np.cumsum(rng.exponential(gap, count)))
    limit = np.ceil(run_time * rng.choice([2, 4, 8], count) / 60) * 60
    user = rng.integers(1, 3, count)
    lines = ["; MaxProcs: 32", "; UnixStartTime: 1"]
    columns = zip(submit, run_time, processors, limit, user, strict=True)
    for job, (came, ran, width, asked, who) in enumerate(columns, start=1):
        start = [job, int(came), 0, int(ran), width, -1, -1, width, int(asked), -1, 1]
        lines.append(" ".join(map(str, [*start, who, who, -1, 1, 1, -1, -1])))
    path = tmp_path_factory.mktemp("log") / "small.swf"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def evaluated(typed: Typed, log: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = typed.json(
        "evaluate", log, "--protocol", "continuous", *words, "--json"
    )["continuous"]
    return found


def test_figures_and_ratios_of_every_policy(typed: Typed, log: str) -> None:
    found = evaluated(typed, log, *POLICIES, "--runs", "2")
    assert (found["runs"], found["counted_jobs"]) == (2, 2400)
    assert set(found["ratio_to_fifo"]) == {"sjf", "wfp3", "fifo", "multifactor"}
    names = {"bounded_slowdown", "ci95", "longest_wait", "p999_wait", "wide_wait", "mean_wait"}
    assert all(set(each) == names for each in found["ratio_to_fifo"].values())
    fifo = found["ratio_to_fifo"]["fifo"]
    assert fifo == {**dict.fromkeys(names, 1.0), "ci95": fifo["ci95"]}
    starving, safe = (found["ratio_to_fifo"][name] for name in ("sjf", "wfp3"))
    assert starving["bounded_slowdown"] < safe["bounded_slowdown"] < 1.0
    assert safe["longest_wait"] < starving["longest_wait"]


def test_the_same_seed_gives_the_same_and_another_one_does_not(typed: Typed, log: str) -> None:
    words = ("--policy", "sjf", "--runs", "1")
    one = evaluated(typed, log, *words)
    assert evaluated(typed, log, *words) == one
    assert evaluated(typed, log, *words, "--seed", "2") != one
    assert one["ratio_to_fifo"]["sjf"]["ci95"] is None


def test_what_is_in_force_at_a_site_acts_on_the_policies_asked_for(
    typed: Typed, log: str, tmp_path: Path
) -> None:
    free = evaluated(typed, log, "--policy", "sjf", "--runs", "1")
    path = tmp_path / "site.toml"
    path.write_text("[hook]\ninfluence_hours = 0.001\n")
    bound = evaluated(typed, log, "--policy", "sjf", "--runs", "1", "--config", str(path))
    for name in ("fifo", "multifactor"):
        assert bound["policies"][name] == free["policies"][name]
    slowdown = [each["ratio_to_fifo"]["sjf"]["bounded_slowdown"] for each in (free, bound)]
    assert slowdown[0] < 0.9 < slowdown[1]


def test_goals_act_and_those_of_the_option_go_before_the_configured_ones(
    typed: Typed, log: str, tmp_path: Path
) -> None:
    path = tmp_path / "site.toml"

    def found(shares: int, *words: str) -> dict[str, Any]:
        path.write_text(f"[hook]\ninfluence_hours = 0\n[goals]\nshares = {shares}\n")
        words = ("--policy", "default", "--shares", "1=.9,2=.1", "--runs", "1", *words)
        return evaluated(typed, log, *words, "--config", str(path))

    none, eight = found(0), found(8)
    assert none != eight
    assert found(0, "--goal", "shares=8") == eight


def test_the_table_and_the_picture_of_the_front(typed: Typed, log: str, tmp_path: Path) -> None:
    words = ["--protocol", "continuous", *POLICIES, "--runs", "1", "--plot", str(tmp_path / "new")]
    printed = typed.out("evaluate", log, *words)
    assert {line.split()[0] for line in printed.splitlines()[2:6]} >= {"sjf", "fifo", "multifactor"}
    assert "medians of 1 runs" in printed
    assert (tmp_path / "new" / "front.png").read_bytes()[:4] == b"\x89PNG"


def test_a_log_too_short_is_one_sentence(typed: Typed, log: str) -> None:
    words = ["evaluate", f"{log}@jobs=0:2000", "--protocol", "continuous"]
    assert "fewer than 1024 jobs: give a longer log" in typed.refused(*words)


def test_runs_have_as_many_days_though_one_leaves_out_the_last_one() -> None:
    log = mmn_log(np.random.default_rng(1), processors=5, jobs=400)
    submit = np.linspace(0.0, 9.9 * DAY, 400)
    submit[-1] += DAY  # alone on the last day
    prepared = prepare_log(replace(log, submit=submit, eligible=submit))
    protocol = ContinuousProtocol(runs=2, seed=seed_without(last=399), whole=True, by_days=True)
    replayed = Replayed(name="sjf", candidate=Candidate(name="sjf"))
    settings = SimulationSettings(capacity=5, backfilling="easy")
    runs = replay_continuously([replayed], prepared, settings, protocol)["sjf"]
    assert [run.slowdowns[1, -1] for run in runs] == [0.0, 1.0]
    ci95 = ratios_to({"sjf": runs}, runs, seed=1, together=1)["sjf"]["ci95"]
    assert ci95 == pytest.approx([1.0, 1.0])


def seed_without(last: int) -> int:
    """A seed whose run leaves out the last job, and whose next one does not."""
    jobs = last + 1
    left_out = [
        last in np.random.default_rng(seed).choice(jobs, int(jobs * LEFT_OUT), replace=False)
        for seed in range(500)
    ]
    return next(seed for seed in range(499) if left_out[seed] and not left_out[seed + 1])
