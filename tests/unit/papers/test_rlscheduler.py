"""The RLScheduler benchmark: its protocol by hand, and every published cell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.papers.rlscheduler_2020.protocol import RULES, BenchmarkJobs, benchmark_starts
from slurm_rl_plugin.papers.rlscheduler_2020.study import (
    SEQUENCE_JOBS,
    SEQUENCE_STARTS,
    TRACES,
    kernel_starts,
    reproduce,
)
from slurm_rl_plugin.papers.study.claims import Row
from slurm_rl_plugin.simulator.workloads.generators import generated_log

pytestmark = pytest.mark.study


PROCESSORS = 4


def jobs(*rows: tuple[int, ...]) -> BenchmarkJobs:
    """Rows of submit, run time, requested time, processors."""
    table = np.array(rows, dtype=np.float64)
    return BenchmarkJobs(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64))


BY_HAND = (Path(__file__).parents[2] / "assets" / "rlscheduler_starts.txt").read_text().splitlines()


@pytest.mark.parametrize("case", BY_HAND[2::2], ids=BY_HAND[1::2])
def test_starts_are_those_by_hand(case: str) -> None:
    rows, words, there, here = case.split("|")
    sequence = jobs(*(tuple(map(int, each.split())) for each in rows.split(",")))
    rule, *options = words.split()
    found = benchmark_starts(sequence, PROCESSORS, rule, **dict.fromkeys(options, True))
    assert found.tolist() == [int(each) for each in there.split()]
    if here.strip():
        ours = kernel_starts(sequence, PROCESSORS, rule)
        assert ours.tolist() == [int(each) for each in here.split()]


def crowded(seed: int, capacity: int) -> BenchmarkJobs:
    """300 jobs for a machine that is mostly full; some outlive their requests."""
    random, count = np.random.default_rng(seed), 300
    run_time = random.integers(1, 200, count).astype(np.float64)
    return BenchmarkJobs(
        submit=np.sort(random.integers(0, 8000, count)).astype(np.float64),
        run_time=run_time,
        requested=run_time + random.integers(-20, 300, count).clip(1 - run_time),
        processors=random.integers(1, capacity + 1, count),
    )


@pytest.mark.parametrize("backfilling", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_every_job_starts_and_the_machine_is_never_overfull(rule: str, backfilling: bool) -> None:
    sequence = crowded(7, PROCESSORS)
    start = benchmark_starts(sequence, PROCESSORS, rule, backfilling=backfilling)
    assert np.all(start >= sequence.submit)
    for now in start:
        running = (start <= now) & (now < start + sequence.run_time)
        assert sequence.processors[running].sum() <= PROCESSORS


@pytest.fixture
def made_up_traces(tmp_path: Path) -> Path:
    """Four logs, just long enough, on machines that are seldom full."""
    jobs = max(SEQUENCE_STARTS) + SEQUENCE_JOBS // 8
    for name, processors in TRACES.values():
        log = generated_log(f"mmn:jobs={jobs},processors={processors},load=.3")
        write_swf(tmp_path / f"{name}.swf", log, comments=[])
    return tmp_path


def test_the_command_draws(made_up_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "rlscheduler", str(made_up_traces), "--json", "--plot"]
    assert main([*words, str(made_up_traces / "figures")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["paper"], len(document["seeds"])) == ("rlscheduler", 10)
    assert [Path(path).read_bytes()[:4] for path in document["figures"]] == [b"\x89PNG"]


FOLDER = os.environ.get("SLURM_RL_TRACES")
needs_traces = pytest.mark.skipif(
    not FOLDER, reason="SLURM_RL_TRACES names no directory of workload traces"
)


def test_a_faulty_trace_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lublin_256.swf").write_text("; MaxNodes: 256\n1 2 3 four\n")
    assert main(["reproduce", "rlscheduler", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def claims() -> list[Row]:
    return reproduce(Path(FOLDER or ""))


@needs_traces
@pytest.mark.parametrize(
    ("group", "cells"),
    [
        ("no backfilling", 24),
        ("their backfilling", 24),
        ("no backfilling, wait mended", 8),
        ("EASY, our kernel", 24),
        ("no backfilling, our kernel", 1),
    ],
)
def test_every_cell_reproduces(claims: list[Row], group: str, cells: int) -> None:
    found = [each for each in claims if each.cell.group == group]
    assert len(found) == cells
    assert [each.as_json() for each in found if not each.reproduces] == []
