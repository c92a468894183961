"""`slurm-rl reproduce start-times` as a user types it, on generated polls and on Graham's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.papers.start_times_2023.experiment import (
    ALIKE,
    COVERAGE,
    ERROR,
    HEADLINE,
    OURS,
    PUBLISHED_PROTOCOL,
)
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs
from tests.functional.typed import Typed

TRACES = os.environ.get("SLURM_RL_TRACES")
GRAHAM = Path(str(TRACES)) / "graham-2021" / "jobs.parquet"
SPREAD = 0.2


def reproduced(typed: Typed, words: list[str]) -> dict[str, object]:
    return dict(typed.json("reproduce", "start-times", *words, "--json"))


def claim(document: dict[str, object], name: str) -> dict[str, object]:
    (found,) = [each for each in document["claims"] if each["name"] == name]  # type: ignore[attr-defined]
    return dict(found)


@pytest.mark.study
def test_a_wait_that_can_be_known_is_foretold_with_a_band_that_holds(
    tmp_path: Path, typed: Typed
) -> None:
    path = write_polled_jobs(tmp_path / "jobs.parquet", polled_jobs(26, 80, spread=SPREAD))
    document = reproduced(typed, [str(path), "--plot", str(tmp_path / "figures")])
    assert document["tested"] == {"polls": 6, "jobs": 480}
    error = claim(document, f"{HEADLINE}: {OURS}, {ERROR}, to goal")
    known_best = SPREAD**2
    assert known_best * 0.8 < error["measured"] < 2.5 * known_best
    assert error["verdict"] == "reproduces"
    assert error["measured"] < 0.7 * error["baselines"]["last similar job"]
    assert error["measured"] < 0.5 * error["baselines"]["median of the partition"]
    coverage = claim(document, f"{HEADLINE}: {OURS}, {COVERAGE}, to goal")
    assert coverage["measured"] == pytest.approx(0.9, abs=0.05)
    assert len(document["by day"]) == 6
    published = f"{PUBLISHED_PROTOCOL}: {ALIKE}, {ERROR}, to Mila, Graham, random days"
    assert claim(document, published)["printed"] == 0.66
    assert [Path(each).read_bytes()[:4] for each in document["figures"]] == [b"\x89PNG"]


@pytest.mark.study
def test_other_numbers_of_accounts_and_partitions_change_no_figure(
    tmp_path: Path, typed: Typed
) -> None:
    found = []
    for first in (500, 90000):
        table = polled_jobs(10, 40, first_account=first)
        path = write_polled_jobs(tmp_path / f"{first}.parquet", table)
        found.append(reproduced(typed, [str(path), "--quick"])["pooled"])
    assert found[0] == found[1]


def test_the_tables_are_printed_for_people(tmp_path: Path, typed: Typed) -> None:
    path = write_polled_jobs(tmp_path / "jobs.parquet", polled_jobs(8, 30))
    printed = typed.out("reproduce", "start-times", path, "--quick")
    assert "gradient boosting without calibration" in printed
    assert "2021-05-08" in printed
    assert "within an hour" in printed


@pytest.mark.parametrize(
    ("days", "more", "said"),
    [
        (1, [], "the file has jobs of 1 poll(s), which is too little to learn from"),
        (20, [], "give at least 21, of which 20 are only learned from"),
        (2, ["--quick"], "give at least 7"),
        (2, ["--seeds", "3"], "--seeds is not for start-times"),
        (2, ["--policy", "a.onnx"], "--policy is not for start-times"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(
    days: int, more: list[str], said: str, tmp_path: Path, typed: Typed
) -> None:
    path = write_polled_jobs(tmp_path / "jobs.parquet", polled_jobs(days, 5))
    complaint = typed.refused("reproduce", "start-times", path, *more)
    assert said in complaint
    assert complaint.count("\n") == 1


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, typed: Typed) -> None:
    status, _, err = typed("reproduce", "start-times", tmp_path)
    assert status != 0
    assert "is no parquet file that can be read" in err


@pytest.mark.study
@pytest.mark.skipif(not GRAHAM.is_file(), reason="SLURM_RL_TRACES names no graham-2021")
def test_a_little_of_graham_runs_and_beats_the_last_similar_job(
    typed: Typed,
) -> None:
    document = reproduced(typed, ["--quick"])
    pooled = document["pooled"]
    ours, last = pooled[OURS], pooled["last similar job"]  # type: ignore[index]
    assert 500 < ours["jobs"] <= 600
    assert ours["square_error"] < min(0.5, last["square_error"])
    assert 0.5 < ours["coverage_90"] <= 1.0
    assert all(np.isfinite(each) for each in ours.values())
