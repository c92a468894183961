"""`slurm-rl reproduce reactive-grids` and `non-markovian` as a user types them, small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import READINGS
from slurm_rl_plugin.policies.network import QNetwork, network_from_parameters, parameter_count
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from tests.functional.small_network import small_network
from tests.functional.typed import Typed

pytestmark = pytest.mark.study


def shortest_first() -> QNetwork:
    """Scores by the logarithm of the run time alone."""
    parameters = np.zeros(parameter_count(REACTIVE_GRID, 1))
    parameters[-1] = -1.0
    halves = tuple(np.full(size, 0.5) for size in (8, 8, 3, 3))
    return network_from_parameters(
        REACTIVE_GRID, parameters, hidden=1, scaler=halves, activation="sigmoid"
    )


CONTRACT = {"name", "algorithm", "printed", "measured", "ci95", "baselines", "verdict", "because"}


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)


@pytest.mark.parametrize(("paper", "figures"), [("reactive-grids", 6), ("non-markovian", 3)])
def test_a_paper_is_reproduced_twice_with_the_networks_of_the_first_run(
    paper: str, figures: int, tmp_path: Path, typed: Typed
) -> None:
    models = tmp_path / "models"
    words = ["reproduce", paper, "--quick", "--seeds", "2", "--models", str(models), "--json"]
    status, out, err = typed(*words, "--plot", tmp_path / "figures")
    assert status == 0
    document = json.loads(out)
    assert document["paper"] == paper
    assert document["seeds"] == [0, 1]
    assert all(set(claim) >= CONTRACT for claim in document["claims"])
    assert {claim["verdict"] for claim in document["claims"]} == {"reproduces", "does not"}
    assert len(document["figures"]) == figures
    assert all(Path(path).read_bytes()[:4] == b"\x89PNG" for path in document["figures"])
    assert "left out" in err
    ours = {claim["name"] for claim in document["claims"] if claim["algorithm"] == "ours"}
    assert ours == {claim["name"] for claim in document["claims"] if learned_by_ours(claim["name"])}
    assert {"paper", "ours"} <= set(document["counts"])
    written = {path.name: path.stat().st_mtime_ns for path in models.iterdir()}
    again = typed.json(*words)
    assert again["claims"] == document["claims"]
    assert {path.name: path.stat().st_mtime_ns for path in models.iterdir()} == written


def learned_by_ours(name: str) -> bool:
    """Whether a claim measures a network of the difference reward, which no paper has."""
    policy = name.partition(": ")[2]
    if name.startswith(("Learning on line", "Reward as printed")):
        return False
    if name.startswith(("Calibration", "Hold action")) or policy.startswith(("RL,", "FIFO / RL,")):
        return True
    return policy.startswith(("NN-", "ESN-")) and "as printed" not in name


def test_the_experiment_of_2008_learns_on_line_in_every_reading_beside_shipped_models(
    tmp_path: Path, typed: Typed
) -> None:
    words = ["reproduce", "reactive-grids", "--quick", "--seeds", "2", "--json"]
    document = typed.json(*words, "--models", str(tmp_path / "models"))
    on_line = [c for c in document["claims"] if c["name"].startswith("Learning on line")]
    assert len(on_line) == 2 * len(READINGS) * 3
    assert {claim["algorithm"] for claim in on_line} == {"paper"}
    policies = document["on_line"]["generated"]["0.2"]
    assert len(policies) == 1 + 3 * len(READINGS)
    assert {np.shape(each["windows"]) for each in policies.values()} == {(2, 10)}
    learned = [each["windows"] for name, each in policies.items() if name.endswith("on line")]
    assert len({json.dumps(each) for each in learned}) == len(READINGS)
    (shipped,) = document["shipped"].values()
    assert set(SHIPPED_MODELS) < set(shipped)
    assert all(0.0 <= value <= 1.0 for row in shipped.values() for value in row.values())


def test_goals_of_the_reserve_stand_beside_every_policy(tmp_path: Path, typed: Typed) -> None:
    model = tmp_path / "reserve.onnx"
    holding = replace(small_network(), reserve_weights=np.zeros(16), reserve_bias=2.0)
    export_network(holding, model, {})
    words = ["reproduce", "responsive-reserve", "--quick", "--seeds", "2", "--policy", str(model)]
    document = typed.json(*words, "--json", "--plot", str(tmp_path / "figures"))
    goals = [claim for claim in document["claims"] if claim["source"] == "goal"]
    assert len(goals) == 3 * 11
    assert all(set(claim["baselines"]) == {"FIFO", "SJF oracle"} for claim in goals)
    names = {claim["name"].partition(": ")[2].partition(", J")[0] for claim in document["claims"]}
    assert {"FIFO", "interactive first", "SJF oracle, 4 held", "SARSA", "hold EST"} <= names
    (figure,) = document["figures"]
    assert Path(figure).read_bytes()[:4] == b"\x89PNG"


def test_a_model_of_other_inputs_is_refused(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "site.onnx"
    export_network(small_network(), path, {})
    assert "reactive-grid" in typed.refused(
        "reproduce", "reactive-grids", "--policy", path, "--quick"
    )


def test_a_given_model_takes_the_place_of_trained_ones(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "given.onnx"
    export_network(shortest_first(), path, {})
    words = ["reproduce", "reactive-grids", "--policy", str(path), "--quick", "--seeds", "2"]
    claims = {
        claim["name"]: claim
        for claim in typed.json(*words, "--json", "--models", str(tmp_path / "models"))["claims"]
    }
    claim = claims["Table II, p = 0.4: RL, batch mean wait (s)"]
    assert claim["measured"] == pytest.approx(claim["baselines"]["SJF oracle"])
    trained = {path.name.partition("-p0")[0] for path in (tmp_path / "models").glob("*.onnx")}
    assert "reactive-grids" not in trained


def test_the_table_counts_verdicts_and_says_why_not(typed: Typed) -> None:
    printed = typed.out("reproduce", "reactive-grids", "--quick", "--seeds", "2")
    assert "Table II, p = 0.2: RL, batch mean wait (s)" in printed
    assert " reproduce. With our algorithm in place of the paper's, " in printed
    assert " goals of this project are met. What does not:" in printed
