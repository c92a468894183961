"""`slurm-rl tune`: settings searched on a small site whose own order is a poor one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli import tune
from slurm_rl_plugin.what_if.tuning import search
from tests.functional.small_site import BUSY_CPUS, write_busy_site
from tests.functional.typed import Typed


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Runs `tune` in a folder with a log: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    write_busy_site(tmp_path, "PriorityWeightJobSize=1000")

    return Typed(capsys, "tune", "log.swf", "--cluster", "slurm.conf")


def test_a_site_that_favours_wide_jobs_is_told_better_weights(typed: Typed, tmp_path: Path) -> None:
    found = typed.json("--generations", "5")
    assert found["gain"]["tuned"]["verdict"] == "better"
    assert found["gain"]["tuned"]["gain"] > 0
    figures = found["variants"]["tuned"]["figures"]
    assert figures["bounded_slowdown"]["ratio"] < 0.8
    assert {"tuned", "best rule", "learned order"} <= set(found["variants"])
    chosen = found["chosen"]
    assert chosen["name"] == "tuned"
    assert set(chosen["objective"]) >= {"as it is", "tuned", "rule"}
    assert chosen["objective"]["tuned"] == max(chosen["objective"].values())
    learned = found["gain"]["learned order"]["gain"] - found["gain"]["tuned"]["gain"]
    assert chosen["learned_order_gain"]["gain"] == pytest.approx(learned)  # the same jobs
    lines = (tmp_path / "tuned.conf").read_text().splitlines()
    assert lines == found["lines"]
    assert all(line.startswith("# ") for line in lines)
    assert "# now: PriorityWeightJobSize=1000" in lines or any("FavorSmall" in x for x in lines)
    held_out = found["log"]["counted_jobs"] / found["log"]["jobs"]
    assert held_out == pytest.approx(0.35, abs=0.03)  # the last 40 % without the last twentieth


def test_where_nothing_is_gained_nothing_is_said(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "DENSER", 1.0)
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=small\nSelectTypeParameters=CR_Core\nPriorityFavorSmall=YES\n"
        f"PriorityWeightJobSize=1000\nNodeName=n[1-{40 * BUSY_CPUS}] CPUs=1\n"
        "PartitionName=all Nodes=ALL Default=YES\n"
    )
    output = typed.out("--generations", "1")
    assert "No gain is significant: leave slurm.conf as it is" in output
    assert not (tmp_path / "tuned.conf").exists()


def test_an_interrupted_search_goes_on_to_the_same_end(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = typed.json("--generations", "2")
    times = []
    objective = search.objective_of

    def stop(*given: Any) -> float:
        times.append(1)
        if len(times) > 15:
            raise KeyboardInterrupt
        return objective(*given)

    kept = ("--generations", "2", "--checkpoint", "kept.jsonl")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(search, "objective_of", stop)
        status, _, errors = typed(*kept)
        assert status == 1
        assert "interrupted: the same command continues from kept.jsonl." in errors
    assert (tmp_path / "kept.jsonl").exists()
    with monkeypatch.context() as interrupted:  # the search is done, and all that follows is not
        interrupted.setattr(tune, "best_rule", _interrupt)
        assert typed(*kept)[0] == 1
    assert (tmp_path / "kept.jsonl").exists()
    again = typed.json(*kept)
    assert again["settings"] == whole["settings"]
    assert again["search"] == whole["search"]
    assert not (tmp_path / "kept.jsonl").exists()


def _interrupt(*given: Any) -> Any:
    raise KeyboardInterrupt


def test_people_read_the_orders_and_the_lines(typed: Typed) -> None:
    output = typed.out("--generations", "2")
    assert "as it is" in output
    assert "learned order: hook default" in output
    assert "Nothing was applied." in output or "No gain is significant" in output
