"""`reproduce start-times` and `replayed-starts`, and that no forecast looks ahead."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.replays import replayed_waits
from slurm_rl_plugin.papers.replayed_starts.experiment import QUICK, SampledJobs, bands_set
from slurm_rl_plugin.papers.start_times_2023.experiment import (
    COVERAGE,
    ERROR,
    HEADLINE,
    OURS,
    PUBLISHED_PROTOCOL,
    SIMILAR,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log, select_prepared
from slurm_rl_plugin.units import DAY, IntArray
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs
from tests.functional.typed import Typed, rows_of

TRACES = os.environ.get("SLURM_RL_TRACES")
GRAHAM = Path(str(TRACES)) / "graham-2021" / "jobs.parquet"
SPREAD = 0.2


def reproduced(typed: Typed, words: list[str]) -> dict[str, object]:
    return dict(typed.json("reproduce", "start-times", *words))


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
    published = f"{PUBLISHED_PROTOCOL}: {SIMILAR}, {ERROR}, to Mila, Graham, random days"
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


@rows_of("reproduce start-times, after days")
def test_what_cannot_be_run_is_one_sentence(
    words: str, said: str, tmp_path: Path, typed: Typed
) -> None:
    days, *more = words.split()
    path = write_polled_jobs(tmp_path / "jobs.parquet", polled_jobs(int(days), 5))
    assert said in typed.refused("reproduce", "start-times", path, *more)


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


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three months of users who ask for whole hours, on 20 processors; most wait."""
    path = tmp_path_factory.mktemp("traces") / "CTC-SP2-1996-3.1-cln.swf"
    made = generated_log("mmn:jobs=3000,processors=20,load=.97,seed=3")
    stretch = 90 * DAY / float(made.submit[-1])
    made.submit[:] *= stretch
    made.run_time[:] *= stretch
    made.time_limit[:] = 3600 * np.ceil(made.run_time / 3600)
    write_swf(path, made, comments=["MaxProcs: 20"])
    return path


@pytest.mark.study
def test_the_study_tells_errors_and_coverage(log: Path, typed: Typed, tmp_path: Path) -> None:
    words = ["reproduce", "replayed-starts", str(log.parent), "--quick", "--json"]
    document = typed.json(*words, "--plot", tmp_path)
    assert {each.rpartition(", ")[2] for each in document["forecasts"]} == {
        "fifo",
        "multifactor",
        "default",
    }
    for each in document["forecasts"].values():
        assert each["replays"]["jobs"] <= QUICK.days * QUICK.jobs
        assert each["plan by limits"]["width_90"] == 0.0
        assert each["replays"]["width_90"] > 0.0
    assert len(document["claims"]) == 9
    assert (tmp_path / "replayed-starts.png").stat().st_size > 10_000
    assert "plan by limits" in typed.out(*words[:-1])


def first_come(workload: Workload, _: IntArray) -> QueueOrder:
    return QueueOrder(scores=-workload.submit)


@pytest.mark.study
def test_nothing_of_later_changes_a_forecast(log: Path) -> None:
    """Jobs after the asked ones, and unfinished run times, must not be known."""
    prepared = prepare_log(read_log(log)[0])
    settings = SimulationSettings(capacity=20, backfilling="easy")
    cut = 2 * len(prepared.log) // 3
    earlier = select_prepared(prepared, np.arange(cut))
    found = []
    for each in (prepared, earlier):
        workload = each.workload(RequestedLimit())
        start = simulate_order(workload, QueueOrder(scores=-workload.submit), settings).start
        asked = np.flatnonzero(start[:cut] > workload.submit[:cut])[-3:]
        told = replayed_waits(each, start, first_come, settings, asked, draws=3, seed=1)
        found.append(told.drawn)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.study
def test_bands_are_set_by_waits_that_are_over() -> None:
    """Two worlds that differ in what is not over yet give the same bands."""
    rng = np.random.default_rng(1)
    day = np.repeat(np.arange(4), 50)
    submit = day * DAY + np.sort(rng.random(200)) * 3600.0
    sampled = SampledJobs(jobs=np.arange(200), day=day, counted=day == 3)
    plain = Forecasts.of_draws(rng.lognormal(8.0, 1.0, (200, 20)))
    wait = rng.lognormal(8.0, 2.0, 200)
    kind = np.zeros(200, dtype=np.int64)
    lasting = submit + wait > 3 * DAY
    assert lasting.any()
    other = np.where(lasting, 10.0 * wait, wait)
    one, two = (bands_set(plain, each, kind, submit, sampled, 0.0) for each in (wait, other))
    np.testing.assert_array_equal(one.seconds, two.seconds)
    assert (one.seconds != plain.select(day == 3).seconds).any()
    assert one.band(0.9)[1].mean() > plain.select(day == 3).band(0.9)[1].mean()


@pytest.mark.study
def test_a_log_on_which_nobody_waits_is_refused(tmp_path: Path, typed: Typed) -> None:
    made = generated_log("mmn:jobs=200,processors=20,load=.01,seed=3")
    made.time_limit[:] = 3600.0
    write_swf(tmp_path / "CTC-SP2-1996-3.1-cln.swf", made, comments=["MaxProcs: 20"])
    assert "no job waits on the drawn days" in typed.refused(
        "reproduce", "replayed-starts", tmp_path, "--quick"
    )
