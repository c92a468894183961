"""The in-sample search on small job sets, and the command on small made-up traces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.papers.rlscheduler_2020.protocol import BenchmarkJobs, benchmark_starts
from slurm_rl_plugin.papers.rlscheduler_2020.study import (
    DECLARED,
    JOB_TERMS,
    QUICK,
    SEARCHED,
    SEQUENCE_JOBS,
    SEQUENCE_STARTS,
    STATE_TERMS,
    TRACES,
    WEIGHTS,
    ScoredSequences,
    SearchResult,
    SearchSettings,
    search_claims,
    search_weights,
    sjf_weights,
)

pytestmark = pytest.mark.study

PROCESSORS = 16
SMALL = SearchSettings(generations=5, population=6)


def made_up_jobs(seed: int, count: int = 200) -> BenchmarkJobs:
    """A crowded machine of PROCESSORS; requested times unlike the run times."""
    random = np.random.default_rng(seed)
    run_time = np.ceil(random.lognormal(4.0, 1.5, count))
    return BenchmarkJobs(
        submit=np.sort(random.integers(0, 60 * count, count)).astype(np.float64),
        run_time=run_time,
        requested=np.ceil(run_time * random.uniform(1.0, 5.0, count)),
        processors=random.integers(1, PROCESSORS + 1, count),
    )


@pytest.fixture(scope="module")
def sequences() -> ScoredSequences:
    return ScoredSequences.of([made_up_jobs(seed) for seed in (1, 2)], PROCESSORS)


def weights_of(**weights: float) -> np.ndarray:
    """Weights of "job_term__state_term"."""
    table = np.zeros((len(JOB_TERMS), len(STATE_TERMS)))
    for name, weight in weights.items():
        job_term, _, state_term = name.partition("__")
        table[JOB_TERMS.index(job_term), STATE_TERMS.index(state_term)] = weight
    return table.ravel()


def test_the_weights_of_sjf_give_exactly_the_starts_of_sjf(sequences: ScoredSequences) -> None:
    for place, sequence in enumerate(sequences.sequences):
        expected = benchmark_starts(sequence, PROCESSORS, "SJF", backfilling=True)
        start, decisions = sequences.starts(place, sjf_weights())
        assert start.tobytes() == expected.tobytes()
        assert 0 < decisions <= len(start)


def test_the_score_sees_what_is_free_when_it_chooses() -> None:
    # at 10 s the second job starts, four processors are left, the third needs all, the last four
    sequence = BenchmarkJobs(
        submit=np.array([0.0, 1.0, 2.0, 3.0]),
        run_time=np.array([10.0, 200.0, 5.0, 300.0]),
        requested=np.array([10.0, 200.0, 5.0, 300.0]),
        processors=np.array([12, 12, 16, 4]),
    )
    one = ScoredSequences.of([sequence], PROCESSORS)
    shortest, _ = one.starts(0, sjf_weights())
    fitting, _ = one.starts(0, sjf_weights() - weights_of(one__fits_now=9.0))
    assert shortest.tolist() == [0, 10, 210, 215]
    assert fitting.tolist() == [0, 10, 310, 10]


def test_a_search_gives_the_same_again_and_another_seed_another(
    sequences: ScoredSequences,
) -> None:
    first, again, other = (
        search_weights(sequences, SMALL, seed, lambda _: None) for seed in (3, 3, 4)
    )
    assert first.weights.tobytes() == again.weights.tobytes()
    assert (first.slowdown, first.decisions) == (again.slowdown, again.decisions)
    assert first.weights.tobytes() != other.weights.tobytes()


@pytest.mark.parametrize(("measured", "holds"), [(37.9, True), (54.0, True), (54.0016, False)])
def test_a_bound_is_reached_at_most_as_published(measured: float, holds: bool) -> None:
    found = SearchResult(seed=0, slowdown=measured, weights=np.zeros(WEIGHTS), decisions=1)
    best = search_claims({"Lublin-1": [found]})[0]
    assert best.cell.group == SEARCHED
    assert best.reproduces is holds  # though 54.0016 rounds to 54.00
    assert best.because == ("at most as published" if holds else "above the published")


@pytest.fixture
def made_up_traces(tmp_path: Path) -> Path:
    """Four logs, just long enough, on machines that are seldom full."""
    random = np.random.default_rng(9)
    count = max(SEQUENCE_STARTS) + SEQUENCE_JOBS // 8
    for name, capacity in TRACES.values():
        lines = [
            f"{job} {60 * job} -1 {run_time} {width} -1 -1 {width} {2 * run_time} -1" + " -1" * 8
            for job, run_time, width in zip(
                range(1, count + 1),
                random.integers(1, 200, count),
                random.integers(1, capacity // 2, count),
                strict=True,
            )
        ]
        (tmp_path / f"{name}.swf").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_command_tells_how_it_searched(
    made_up_traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "rlscheduler", str(made_up_traces), "--search", "--quick", "--seeds", "2"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    search = document["search"]
    assert search["in_sample"] is True
    assert search["seeds"] == [0, 1]
    assert (search["generations"], search["population"]) == (QUICK.generations, QUICK.population)
    assert set(search["traces"]) == set(TRACES) == set(DECLARED.tables["best_of_others"])
    decisions = [each["simulated_decisions"] for each in search["traces"].values()]
    assert search["simulated_decisions"] == sum(decisions) > 0
    names = [each["name"] for each in document["claims"]]
    assert sum(name.startswith("in-sample search, their backfilling") for name in names) == 8

    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "8 of 8 searched in-sample are at most as published." in printed
    assert f"{sum(decisions)} simulated decisions" in printed
