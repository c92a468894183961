"""`slurm-rl evaluate --protocol heldout` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.learning.evaluation.heldout import HEURISTICS
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.architecture.markdown_documents import TOP, code_spans, table_rows
from tests.functional.small_network import small_network
from tests.functional.typed import Typed

pytestmark = pytest.mark.study

#: The test part holds 2,540 jobs: five windows.
LOG = "mmn:load=.8,jobs=6350,seed=3"
HELDOUT = ("--protocol", "heldout", "--windows", "100")


def test_the_documented_json(typed: Typed, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    export_network(small_network(), model, {"estimates": "requested"})
    words = [LOG, *HELDOUT, "--policy", model, "--policy", "saf", "--seed", 4, "--json"]
    document = json.loads(typed(*words))
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
            assert ratio["ci95"] is None  # five windows of the same jobs tell no interval
    assert heldout["ratio_to_best_heuristic"][best]["mean"] == 1.0
    assert heldout["ratio_to_multifactor"]["multifactor"]["geometric_mean"] == 1.0
    fifo = heldout["policies"]["fifo"]
    assert 0 <= fifo["short_within_120s"] <= 1
    assert fifo["mean_bounded_slowdown"] / heldout["policies"][best][
        "mean_bounded_slowdown"
    ] == pytest.approx(heldout["ratio_to_best_heuristic"]["fifo"]["mean"])
    check_defined(heldout)


def check_defined(heldout: dict[str, Any]) -> None:
    """Every key of the document stands in the table of definitions."""
    text = (TOP / "docs" / "definitions.md").read_text()
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
    printed = typed(requested, *HELDOUT, "--config", config, "--policy", "interactive-first")
    assert printed.startswith("Shares: none configured")
    lines = printed.splitlines()[1:]
    best = lines[2].split()[0]
    assert sorted(rules) == sorted(line.split()[0] for line in lines[2:4])
    assert f"best heuristic: {best}; windows of the test part: 5, independent: 1.0" in printed
    reported = {line.split()[0] for line in lines[7:11]}
    assert reported == {"interactive-first", "fifo", "multifactor", best}
    assert "class that policies see: interactive if time_limit_at_most=3600" in printed
    assert "asked for no time" not in printed
    head = lines.index("run times as predicted when jobs come, on the test part:") + 1
    assert lines[head].split()[:3] == ["LOG-SCORE", "CRPS", "LOG10-ERROR"]
    assert all(float(each) > 0 for each in lines[head + 1].split())


def test_a_log_too_short_for_a_window_is_one_sentence(
    typed: Typed,
) -> None:
    status, _, sentence = typed("evaluate", "mmn:jobs=6300", "--protocol", "heldout")
    assert status == 2
    assert "2520 jobs" in sentence
    assert "2536" in sentence
