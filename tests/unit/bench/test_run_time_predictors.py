"""Scores of the predictors that are compared: by hand on small distributions and logs."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log, log10
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.learning.evaluation.run_time_scores import (
    crps,
    log_scores,
    outcome,
    run_time_scores,
)
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from tests.bench.forecasts.run_time_predictors import (
    PREDICTORS,
    Runs,
    about,
    by_package,
    main,
    shrunk_means,
)
from tests.reference.loads import log_of, random_workload

DAY = 86_400.0


def log_with(*jobs: tuple[int, float, float, float]) -> PreparedLog:
    """Jobs of (user, submission and start, run time, time limit), one processor each."""
    user, submit, run_time, limit = (np.array(each) for each in zip(*jobs, strict=True))
    workload = random_workload(1, len(jobs), parallel=False, accounts=1)
    made = log_of(workload, time_limit=limit.astype(float))
    made = replace(made, submit=submit.astype(float), eligible=submit.astype(float))
    made = replace(made, start=submit.astype(float), run_time=run_time.astype(float))
    return prepare_log(replace(made, user=user, users=("a", "b")))


def test_a_point_is_spread_as_earlier_runs_were_about_theirs() -> None:
    """Of three runs that have ended one was half as long as its point, two twice as long.

    What runs beyond .99 of the limit is ended by it. The runs that are scored change nothing.
    """
    jobs = [(0, 0.0, ran, 200.0) for ran in (50, 200, 200)]
    jobs += [(0, 299.0, 200, 200.0)] * 3  # goes on when the first that is scored comes
    jobs += [(0, 300.0, 1, 200.0)] * 4
    found = about(np.array([100.0] * 6 + [40.0, 150.0, 1.0, 1.0]), Runs.of(log_with(*jobs)))
    # 20 s: before 30 s; 80 s: between one and two minutes
    assert found[6, [1, 3]] == pytest.approx([1 / 3, 2 / 3])
    # 75 s; 300 s is more than the limit of 200 s
    assert found[7, [3, 16]] == pytest.approx([1 / 3, 2 / 3])
    assert found.sum(axis=1) == pytest.approx(np.ones(10))


def test_shrunk_means_know_what_has_ended() -> None:
    """The first run of 20 s ends at 20 s: the second job does not know it, the third does."""
    runs = Runs.of(log_with((0, 0, 20, 100), (0, 10, 20, 100), (0, 30, 20, 100), (1, 30, 9, 100)))
    found = shrunk_means(runs)
    assert found[1, -1] == pytest.approx([40.0, 0.03])  # .4 and 3 of the request
    mean = 40.0
    for prior in (5.0, 1.0, 0.7, 0.7):
        mean = (20.0 + prior * mean) / (1.0 + prior)
    # at 30 s the second run has ended too: the first counts as the level's part of a run
    assert found[2, -1, 0] < mean
    assert found[3, 0, 0] == pytest.approx(((1 + 0.999) * 20 + 5 * 40) / (1 + 0.999 + 5))
    assert found[3, 1, 0] == pytest.approx(found[3, 0, 0])  # nothing of the other user has ended


def test_the_package_is_scored_as_the_heldout_evaluation_scores_it() -> None:
    prepared = prepare_log(generated_log("egee:jobs=400,processors=20"))
    runs = Runs.of(prepared)
    predicted, came = by_package(runs).parts, outcome(runs.ran, runs.limit)
    expected = run_time_scores(prepared, runs.first, len(runs.ran))
    part = slice(runs.first, None)
    assert log_scores(predicted, came)[part].mean() == pytest.approx(expected["log_score"])
    score = crps(predicted[:, :-1].cumsum(axis=1), runs.ran, runs.limit)[part].mean()
    assert score == pytest.approx(expected["crps"])


@pytest.mark.parametrize("name", PREDICTORS)
def test_no_run_that_ends_later_changes_a_prediction(name: str) -> None:
    log_before = generated_log("egee:jobs=300,processors=20")
    ends = log_before.submit + log_before.run_time  # nobody has recorded starts
    later = ends > log_before.submit[200]
    assert later[:200].any()
    run_time = np.where(later, 1e6, log_before.run_time)
    one, other = (
        PREDICTORS[name](Runs.of(prepare_log(each)))
        for each in (log_before, replace(log_before, run_time=run_time))
    )
    assert other.parts[180:200].tolist() == one.parts[180:200].tolist()
    assert other.mean[180:200].tolist() == one.mean[180:200].tolist()


def test_every_predictor_gives_a_distribution_and_all_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "site.swf"
    write_swf(path, generated_log("egee:jobs=300,processors=20"), comments=["MaxProcs: 20"])
    main([str(path)])
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "site.swf: 120 of 300 jobs"
    found = {name: figures for line in lines for name, figures in json.loads(line).items()}
    assert [*found] == ["package", "class", "limit", "last two", "means", "trees"]
    for figures in found.values():
        assert 0.0 < figures["log_score"] < log(1e6)
        assert 0.0 < figures["crps"] < log10(2 * DAY)
    assert found["package"]["against"][0] == 0.0
    difference = found["limit"]["log_score"] - found["package"]["log_score"]
    assert found["limit"]["against"][0] == pytest.approx(difference)
