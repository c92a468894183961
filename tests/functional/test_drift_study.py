"""`reproduce drift`, made small: its document, its report and its figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A year of users who ask for whole hours, on 20 processors; most wait."""
    folder = tmp_path_factory.mktemp("traces")
    made = generated_log("mmn:jobs=9000,processors=20,load=.97,seed=3")
    stretch = 52 * WEEK / float(made.submit[-1])
    for column in (made.submit, made.run_time):
        column[:] *= stretch
    made.time_limit[:] = 3600 * np.ceil(made.run_time / 3600)
    write_swf(folder / "CTC-SP2-1996-3.1-cln.swf", made, comments=["MaxProcs: 20"])
    return folder


def test_the_study_tells_what_it_claims(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["reproduce", "drift", str(traces), "--quick", "--models", str(tmp_path / "models")]
    assert main([*words, "--json", "--plot", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "no log of SDSC-SP2 or HPC2N: left out" in printed.err
    document = json.loads(printed.out)
    assert document["seeds"] == [0, 1]
    goals = [claim for claim in document["claims"] if claim["verdict"]]
    assert {claim["published"] for claim in goals} <= {0.80, 1.0}
    assert {claim["source"] for claim in goals} == {"goal"}
    names = {claim["name"] for claim in document["claims"]}
    for group in ("CTC-SP2", "all logs"):
        assert f"{group}: the watch, false warnings a year" in names
        assert f"{group}: the truth, half of the gain is lost" in names
    (log,) = document["logs"].values()
    assert log["reference_weeks"] >= 8
    assert [each["weeks"] for each in log["nothing_changes"]] == [30, 30]
    assert {each["weeks"] for each in log["changing"]} == {log["real"]["weeks"]}
    assert {Path(each).name for each in document["figures"]} == {
        "drift-history.png",
        "drift-warnings.png",
    }
    assert all(Path(each).stat().st_size > 10_000 for each in document["figures"])
    assert main(words) == 0  # from kept models and runs
    assert "false warnings a year" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["claims"] == document["claims"]


def test_what_it_does_not_take_is_refused(
    tmp_path: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)
    words = ["reproduce", "drift"]
    assert main([*words, "--quick"]) == 2
    assert main([*words, str(tmp_path)]) == 2
    assert main([*words, str(traces), "--policy", str(tmp_path / "model.onnx")]) == 2
    assert main([*words, str(traces), "--seeds", "1"]) == 2
