"""`convert` makes a LOG that every verb takes; of a large one `train` reads some weeks only."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slurm_rl_plugin.accounting.stored.log import StoredLog
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli import log_arguments, train
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.log_arguments import (
    WEEK,
    LogExcerpt,
    add_log_options,
    read_named_logs,
    sampled,
)
from slurm_rl_plugin.errors import AccountingLogError, ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions, NamedLog
from slurm_rl_plugin.learning.training import TrainingPlan
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.bench.speed.log_conversion import write_sacct_log
from tests.functional.typed import Typed, rows_of


def read(argument: str) -> NamedLog:
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    return read_named_logs([argument], LogOptions.of(parser.parse_args([])))[0]


@pytest.mark.parametrize("name", ["account", "user", "partition"])
@pytest.mark.parametrize("harm", ["\r", "", "r", "1.5", "9" * 5000])
def test_a_stored_workload_log_whose_names_are_no_numbers_is_damaged(
    name: str, harm: str, folder: Path, tmp_path: Path
) -> None:
    path, stored = tmp_path / "any.parquet", folder / "site.parquet"
    jobs = pl.read_parquet(stored).with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(harm)).otherwise(name).alias(name)
    )
    jobs.write_parquet(path, metadata=pl.read_parquet_metadata(stored))
    with pytest.raises(AccountingLogError, match="the file is damaged; convert the log again"):
        StoredLog(path).log()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month of a site that runs a job each quarter of an hour, as text and as parquet."""
    folder = tmp_path_factory.mktemp("large")
    log = generated_log("mmn:jobs=3000,processors=5,load=.5,seed=4")
    seconds = np.floor(np.linspace(0, 31 * 86400, len(log)))
    log.submit[:], log.eligible[:], log.start[:] = seconds, seconds, seconds + 60
    log.run_time[:] = np.ceil(log.run_time)
    write_swf(folder / "site.swf", log, comments=["MaxProcs: 5"])
    write_sacct_log(folder / "sacct.txt", 2000, seed=2)
    for name in ("site.swf", "sacct.txt"):
        stored = (folder / name).with_suffix(".parquet")
        assert main(["convert", str(folder / name), "-o", str(stored)]) == 0
    return folder


def test_the_verb_tells_what_became_of_every_record(folder: Path, typed: Typed) -> None:
    words = ["convert", str(folder / "sacct.txt"), "-o", str(folder / "again.parquet")]
    report = typed.json(*words)
    assert report["read"] == report["kept"] + sum(report["dropped"].values())
    assert f"{report['kept']:,} of {report['read']:,} records" in typed.out(*words)


@rows_of("convert")
def test_what_cannot_be_is_refused_in_one_sentence(
    folder: Path, words: str, said: str, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(folder)
    assert said in typed.refused("convert", *words.split())
    assert not (folder / "x.parquet").exists()


@pytest.mark.parametrize("excerpt", ["", "@jobs=100:250", "@weeks=2,seed=3", "@weeks=4"])
def test_a_part_of_either_form_is_the_same(folder: Path, excerpt: str) -> None:
    plain, stored = (read(f"{folder / name}{excerpt}") for name in ("site.swf", "site.parquet"))
    assert plain.report.checksum == stored.report.checksum
    for name in ("job_id", "submit", "run_time", "processors", "account", "user"):
        one, other = getattr(plain.prepared.log, name), getattr(stored.prepared.log, name)
        np.testing.assert_array_equal(one, other)


def test_a_week_comes_out_of_each_stretch_of_the_log(folder: Path) -> None:
    log = read(f"{folder / 'site.parquet'}@weeks=2,seed=3").prepared.log
    week = np.unique(log.submit // WEEK).tolist()
    assert len(week) == 2
    assert week[0] in (0, 1)
    assert week[1] in (2, 3)
    draws = [LogExcerpt(log="x", weeks=2, seed=seed).drawn_weeks(0.0, 60 * WEEK) for seed in (1, 2)]
    assert draws[0] != draws[1]


def test_a_log_has_no_more_weeks_than_it_has(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="has 4 whole weeks"):
        read(f"{folder / 'site.parquet'}@weeks=5")
    with pytest.raises(ConfigurationError, match="either jobs or weeks"):
        read(f"{folder / 'site.parquet'}@weeks=2,jobs=1:2")


def test_the_size_of_the_machine_is_that_of_the_whole_log(folder: Path) -> None:
    stored = folder / "sacct.parquet"
    whole = read(str(stored)).prepared
    log = StoredLog(stored)
    # the dump of some hours has no week: what a part is drawn from counts, not the part
    excerpt = LogExcerpt(log=str(stored), weeks=1)
    with pytest.raises(ConfigurationError, match="0 whole weeks"):
        excerpt.stored(log)
    assert whole.capacity > 0
    assert len(whole.log) == len(log)


def test_of_a_large_log_train_draws_weeks_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = str(folder / "site.parquet")
    assert sampled(stored) == stored
    assert sampled("mmn:jobs=10") == "mmn:jobs=10"
    monkeypatch.setattr(log_arguments, "MOST_JOBS", 2000)
    assert sampled(stored) == f"{stored}@weeks=2"
    assert "3,000 jobs in 4 weeks: sampling 2 weeks" in capsys.readouterr().err

    plans: list[TrainingPlan] = []

    def plan_only(plan: TrainingPlan, output: Path, **more: object) -> None:
        plans.append(plan)
        raise ConfigurationError("the plan is enough.")

    monkeypatch.setattr(train, "train_model", plan_only)
    assert main(["train", stored, "-o", str(folder / "m.onnx")]) == 2
    (plan,) = plans
    assert plan.sources[0]["log"] == "site.parquet@weeks=2"
    assert "slurm-rl train site.parquet@weeks=2 -o m.onnx" in plan.command
    assert 0 < plan.sources[0]["jobs"] == len(plan.logs[0].log) < 3000
