"""`train` and `evaluate --protocol heldout` and `reproduce heldout`, on small logs and windows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.learning import training
from slurm_rl_plugin.learning.evaluation.heldout import HEURISTICS, HeldoutProtocol
from slurm_rl_plugin.learning.heldout_training import (
    RuleComparison,
    compare_with_rules,
    heldout_loads,
)
from slurm_rl_plugin.learning.onnx_file import export_network, import_network
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.papers.heldout.ablation import ALL_FEATURES, FITTED_Q, TO_ALL, VARIANTS
from slurm_rl_plugin.papers.heldout.experiment import DECLARED, FITTED, MISDELIVERED, TO_BEST
from slurm_rl_plugin.papers.study.trials import LOGS
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.architecture.markdown_documents import TOP, code_spans, table_rows
from tests.functional.small_site import small_network
from tests.functional.test_papers import reproduced
from tests.functional.typed import Typed, rows_of

pytestmark = pytest.mark.study


SHORT = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)
SMALL = ("--protocol", "heldout", "--preset", "slowdown", "--steps", "2", "--set", "batch=2")


def write_log(path: Path, seed: int, jobs: int = 2500) -> Path:
    """Users who ask for whole hours, on 20 processors."""
    log = generated_log(f"mmn:jobs={jobs},processors=20,load=.97,seed={seed}")
    log.time_limit[:] = 3600 * np.ceil(log.run_time / 3600)
    write_swf(path, log, comments=["MaxProcs: 20"])
    return path


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = partial(heldout_loads, training=SHORT, validation=SHORT)
    monkeypatch.setattr(training, "heldout_loads", loads)
    compare = partial(compare_with_rules, validation=SHORT)
    monkeypatch.setattr(training, "compare_with_rules", compare)


@pytest.mark.usefixtures("short_windows")
def test_seeds_are_trained_and_the_choice_is_recorded(tmp_path: Path, typed: Typed) -> None:
    log, model = write_log(tmp_path / "site.swf", 1), tmp_path / "site.onnx"
    words = ["train", str(log), *SMALL, "--seeds", "2", "--seed", "5", "-o", str(model)]
    printed = typed.out(*words)
    manifest = json.loads(model.with_suffix(".json").read_text())
    heldout = manifest["heldout"]
    assert set(manifest["seeds"]) == {"5", "6"}
    assert heldout["jobs_seen"] == 0.6
    assert set(heldout["validation_ratio"]) == {"site.swf"}
    best = heldout["best_heuristic"]["site.swf"]
    assert f"of {best}'s on the validation part" in printed
    assert "--protocol heldout" in manifest["command"]
    assert "--seeds 2" in manifest["command"]
    assert import_network(model).looks_at_past == (heldout["shipped"] == "network")
    assert "--runs" not in manifest["command"]


@pytest.mark.usefixtures("short_windows")
@pytest.mark.parametrize("ratio_to_saf", [1.01, 0.06])
def test_where_no_training_wins_the_rule_is_written_if_it_is_better_and_said(
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    ratio_to_saf: float,
) -> None:
    slowdown = {**dict.fromkeys(RULE_WEIGHTS, 9.0), "saf": 3.0}
    told = {"slowdown": slowdown, "ratio_to": {"saf": ratio_to_saf}}
    lost = RuleComparison(best_heuristic="sjf-predicted", ratio=1.01, **told)
    monkeypatch.setattr(training, "compare_with_rules", lambda *_: lost)
    log, model = write_log(tmp_path / "site.swf", 1), tmp_path / "site.onnx"
    said, is_saf = typed.out("train", log, *SMALL, "-o", str(model)), ratio_to_saf > 1.0
    assert "does not beat the best rule" in said
    assert ("can represent: it is written" in said) != is_saf
    same = np.allclose(import_network(model).linear, rule_network("saf").linear)
    assert same == is_saf
    manifest = json.loads(model.with_suffix(".json").read_text())
    found = {row["policy"]: row["objective"] for row in manifest["validation"]}
    lost = manifest["seeds"]["1"]  # the network's own
    assert (lost == found["this model"]) != is_saf
    card = model.with_suffix(".md").read_text()
    assert f"| this model | {found['this model']:.4f} |" in card
    assert ("this model is the rule saf" in card) == is_saf
    assert ("does not beat the best rule, but" in card) != is_saf


@rows_of("train --protocol heldout")
def test_what_does_not_go_with_the_protocol_is_one_sentence(
    tmp_path: Path, typed: Typed, words: str, said: str
) -> None:
    log = write_log(tmp_path / "site.swf", 1)
    assert said in typed.refused("train", log, *SMALL, *words.split(), "-o", tmp_path / "site.onnx")
    assert not (tmp_path / "site.onnx").exists()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for seed, name in enumerate(list(LOGS)[:2]):
        write_log(tmp_path / f"{LOGS[name]}.swf", seed)
    return tmp_path


def test_the_study_trains_chooses_on_the_past_and_measures_once(traces: Path, typed: Typed) -> None:
    names = list(LOGS)[:2]
    first = reproduced(typed, traces, "heldout", traces, "--seeds", 2, figures=1)
    goals = [claim for claim in first["claims"] if claim["printed"] is not None]
    assert len(goals) == sum(len(DECLARED.goals(name)) for name in names)
    assert {name for name, facts in first["logs"].items() if len(facts["reserves"]) == 2} == {
        *names
    }
    figures = {claim["name"]: claim["measured"] for claim in first["claims"]}
    for group in (*names, "all logs"):
        assert figures[f"{group}: {FITTED}, {TO_BEST}"] > 0
        served = figures.get(f"{group}: multifactor, {MISDELIVERED}", 0.0)
        assert 0.0 <= served < 1.0
    for facts in first["logs"].values():
        assert facts["shares_from"] == "work"
        assert sum(facts["shares"].values()) == pytest.approx(1.0)
        assert all("misdelivered" in each for each in facts["effects"].values())


def test_the_ablation_measures_every_variant_against_all_features(
    traces: Path, typed: Typed
) -> None:
    found = reproduced(typed, traces, "ablation", traces, "--seeds", 2, figures=1)
    measured = {claim["name"]: claim["measured"] for claim in found["claims"]}
    assert len(measured) == 2 * 3 * (len(VARIANTS) + 1)
    for name in (*found["best_heuristic"], "all logs"):
        assert measured[f"{name}: {ALL_FEATURES}, {TO_ALL}"] == 1.0
        assert measured[f"{name}: without predicted run times, {TO_ALL}"] != 1.0
        assert measured[f"{name}: {FITTED_Q}, {TO_ALL}"] != 1.0


#: The test part holds 2,540 jobs: five windows.
LOG = "mmn:load=.8,jobs=6350,seed=3"
HELDOUT = ("--protocol", "heldout", "--windows", "100")


def test_the_documented_json(typed: Typed, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    export_network(small_network(), model, {"estimates": "requested"})
    words = [LOG, *HELDOUT, "--policy", model, "--policy", "saf", "--seed", 4]
    document = typed.json("evaluate", *words)
    heldout = document["heldout"]
    assert set(document) == {"log", "policies", "heldout"}
    assert document["policies"] == heldout["policies"]
    assert document["log"]["class_rule"] == "run time < 900 s"
    assert "time_limit_at_most" in heldout["class_rule"]
    assert (document["log"]["backfill"], document["log"]["estimates"]) == ("easy", "requested")
    assert (heldout["windows"], heldout["independent_windows"]) == (5, 1.0)
    assert heldout["jobs_without_request"] == 6350
    scores = heldout["run_time_scores"]
    assert set(scores) == {"log_score", "crps", "log_error", "log_error_requested", "shares_below"}
    assert list(scores["shares_below"]) == ["0.1", "0.25", "0.5", "0.75", "0.9"]
    slowdowns = heldout["training_bounded_slowdown"]
    best = heldout["best_heuristic"]
    assert tuple(slowdowns) == HEURISTICS
    assert slowdowns[best] == min(slowdowns.values())
    for to in ("ratio_to_best_heuristic", "ratio_to_multifactor"):
        assert {str(model), "saf", "fifo", "multifactor", best} == set(heldout[to])
        for ratio in heldout[to].values():
            assert set(ratio) == {"mean", "geometric_mean", "ci95"}
            assert ratio["ci95"] is None  # five windows of the same jobs give no interval
    assert heldout["ratio_to_best_heuristic"][best]["mean"] == 1.0
    assert heldout["ratio_to_multifactor"]["multifactor"]["geometric_mean"] == 1.0
    fifo = heldout["policies"]["fifo"]
    assert 0 <= fifo["short_within_120s"] <= 1
    assert fifo["mean_bounded_slowdown"] / heldout["policies"][best][
        "mean_bounded_slowdown"
    ] == pytest.approx(heldout["ratio_to_best_heuristic"]["fifo"]["mean"])
    check_defined(heldout)


def check_defined(heldout: dict[str, Any]) -> None:
    """Every key of the document is in the table of definitions."""
    text = (TOP / "docs" / "research" / "definitions.md").read_text()
    defined = {span for row in table_rows(text) for cell in row for span in code_spans(cell)}
    keys = {*heldout, *heldout["policies"]["fifo"], *heldout["ratio_to_multifactor"]["fifo"]}
    assert keys - defined == set()


@pytest.fixture
def requested(tmp_path: Path) -> Path:
    """A log whose users ask for whole hours."""
    path = tmp_path / "site.swf"
    log = generated_log(LOG)
    log.time_limit[:] = 3600 * np.ceil(log.run_time / 3600)
    write_swf(path, log, comments=["MaxProcs: 50"])
    return path


def test_the_table_says_what_was_chosen_and_what_policies_saw(
    typed: Typed,
    requested: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = ("sjf", "edf")
    monkeypatch.setattr("slurm_rl_plugin.learning.evaluation.heldout.HEURISTICS", rules)
    config = tmp_path / "site.toml"
    config.write_text('[[job_class]]\nclass = "interactive"\ntime_limit_at_most = 3600\n')
    words = (*HELDOUT, "--config", config, "--policy", "interactive-first")
    printed = typed.out("evaluate", requested, *words)
    assert printed.startswith("Shares: none configured")
    lines = printed.splitlines()[1:]
    best = lines[2].split()[0]
    assert sorted(rules) == sorted(line.split()[0] for line in lines[2:4])
    assert f"best heuristic: {best}; windows of the test part: 5, independent: 1.0" in printed
    reported = {line.split()[0] for line in lines[7:11]}
    assert reported == {"interactive-first", "fifo", "multifactor", best}
    assert "class that policies know: interactive if time_limit_at_most=3600" in printed
    assert "without a requested time" not in printed
    head = lines.index("run times as predicted when jobs arrive, on the test part:") + 1
    assert lines[head].split()[:3] == ["LOG-SCORE", "CRPS", "LOG10-ERROR"]
    assert all(float(each) > 0 for each in lines[head + 1].split())
