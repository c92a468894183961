"""`slurm-rl reproduce` as a user types it, small; and what it cannot run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.papers.backfilling_predictions_2015.experiment import (
    LOGS,
    ONE_METHOD,
    SETTINGS,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import CELLS
from slurm_rl_plugin.papers.economic_2002.markets import CONFIGURATIONS, CTC, EXTRACTS, QUICK_JOBS
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import READINGS
from slurm_rl_plugin.papers.site_utilities_2008 import experiment as site_utilities
from slurm_rl_plugin.papers.switchback.clusters import equal_models, with_gain
from slurm_rl_plugin.papers.switchback.study import (
    EQUAL,
    GAIN,
    HARM,
    KINDS,
    SOON,
    TrialLength,
    held_trial,
)
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS
from tests.functional.small_site import by_run_time, lpc_like_log, small_network
from tests.functional.typed import Typed, rows_of

CONTRACT = {"name", "algorithm", "printed", "measured", "ci95", "baselines", "verdict", "because"}


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)


@pytest.mark.study
@pytest.mark.parametrize(
    ("paper", "figures", "judged"),
    [
        ("reactive-grids", 6, {"paper": 76, "ours": 35, "goals": 18}),
        ("non-markovian", 3, {"paper": 90, "ours": 120}),
    ],
)
def test_a_paper_is_reproduced_twice_with_the_networks_of_the_first_run(
    paper: str, figures: int, judged: dict[str, int], tmp_path: Path, typed: Typed
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
    assert {whose: each["judged"] for whose, each in document["counts"].items()} == judged
    written = {path.name: path.stat().st_mtime_ns for path in models.iterdir()}
    again = typed.json(*words)
    assert again["claims"] == document["claims"]
    assert {path.name: path.stat().st_mtime_ns for path in models.iterdir()} == written
    if paper == "reactive-grids":
        _check_on_line_and_shipped(document)


def learned_by_ours(name: str) -> bool:
    """Whether a claim measures a network of the difference reward, which no paper has."""
    policy = name.partition(": ")[2]
    if name.startswith(("Learning on line", "Reward as printed")):
        return False
    if name.startswith(("Calibration", "Hold action")) or policy.startswith(("RL,", "FIFO / RL,")):
        return True
    return policy.startswith(("NN-", "ESN-")) and "as printed" not in name


def _check_on_line_and_shipped(document: dict[str, Any]) -> None:
    """The experiment of 2008 learns on line in every reading, and has the shipped models."""
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


@pytest.mark.study
def test_goals_of_the_reserve_stand_beside_every_policy(tmp_path: Path, typed: Typed) -> None:
    model = tmp_path / "reserve.onnx"
    holding = replace(small_network(), reserve_weights=np.zeros(16), reserve_bias=2.0)
    export_network(holding, model, {})
    words = ["reproduce", "responsive-reserve", "--quick", "--seeds", "2", "--policy", str(model)]
    document = typed.json(*words, "--plot", str(tmp_path / "figures"))
    goals = [claim for claim in document["claims"] if claim["source"] == "goal"]
    assert len(goals) == 3 * 11
    assert all(set(claim["baselines"]) == {"FIFO", "SJF oracle"} for claim in goals)
    names = {claim["name"].partition(": ")[2].partition(", J")[0] for claim in document["claims"]}
    assert {"FIFO", "interactive first", "SJF oracle, 4 held", "SARSA", "hold EST"} <= names
    (figure,) = document["figures"]
    assert Path(figure).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.study
def test_a_model_of_other_inputs_is_refused(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "site.onnx"
    export_network(small_network(), path, {})
    assert "reactive-grid" in typed.failing(
        "reproduce", "reactive-grids", "--policy", path, "--quick", code=2
    )


@pytest.mark.study
def test_a_given_model_takes_the_place_of_trained_ones(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "given.onnx"
    export_network(by_run_time(REACTIVE_GRID), path, {})
    words = ["reproduce", "reactive-grids", "--policy", str(path), "--quick", "--seeds", "2"]
    claims = {
        claim["name"]: claim
        for claim in typed.json(*words, "--models", str(tmp_path / "models"))["claims"]
    }
    claim = claims["Table II, p = 0.4: RL, batch mean wait (s)"]
    assert claim["measured"] == pytest.approx(claim["baselines"]["SJF oracle"])
    trained = {path.name.partition("-p0")[0] for path in (tmp_path / "models").glob("*.onnx")}
    assert "reactive-grids" not in trained


WORDS = ["reproduce", "learning-agents", "--quick"]


@pytest.mark.study
def test_figures_claims_and_manifest(tmp_path: Path, typed: Typed) -> None:
    folder = tmp_path / "figures"
    document = typed.json(*WORDS, "--seeds", "3", "--plot", folder)
    assert document["paper"] == "learning-agents"
    assert document["seeds"] == [0, 1, 2]
    assert all(set(claim) >= CONTRACT for claim in document["claims"])
    judged = [claim for claim in document["claims"] if claim["verdict"] is not None]
    assert [claim["source"] for claim in judged].count("goal") == 6
    for figure in range(2, 6):
        assert any(claim["name"].startswith(f"Fig. {figure}") for claim in judged)
    manifest = json.loads((folder / "learning-agents.json").read_text())
    assert manifest["command"] == "slurm-rl reproduce learning-agents --seeds 3 --quick"
    assert manifest["claims"] == document["claims"]
    assert len(document["figures"]) == len(manifest["figures"]) == 4
    for path in map(Path, document["figures"]):
        content = path.read_bytes()
        assert content[:4] == b"\x89PNG"
        assert manifest["figures"][path.name] == hashlib.sha256(content).hexdigest()
    again = typed.json(*WORDS, "--seeds", "3")
    assert again["claims"] == document["claims"]
    assert again["figures"] == []


JOBS = (max(EXTRACTS.values()) + 1) * QUICK_JOBS
#: Five of an extract, so that whole weeks are left on which nothing was chosen.
SPAN = 35 * 7 * 86400


def write_log(folder: Path, jobs: int = JOBS) -> None:
    """As CTC-SP2: wide and narrow jobs that ask for more than they take, in bursts."""
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, SPAN // 3600, jobs) * 3600)
    submit[-1] = SPAN
    run = rng.lognormal(10.4, 1.5, jobs).astype(int) + 1
    asked = run * rng.integers(1, 6, jobs)
    wide = np.where(rng.random(jobs) < 0.1, 336, rng.integers(1, 64, jobs))
    lines = ["; MaxProcs: 338"] + [
        f"{job + 1} {submit[job]} -1 {run[job]} {wide[job]} -1 -1 {wide[job]} {asked[job]} -1 1 "
        f"{job % 7} 1 -1 1 -1 -1 -1"
        for job in range(jobs)
    ]
    (folder / f"{CTC}.swf").write_text("\n".join(lines) + "\n")


@pytest.mark.study
def test_the_paper_is_reproduced_and_a_second_run_goes_on(tmp_path: Path, typed: Typed) -> None:
    write_log(tmp_path)
    kept, figures = tmp_path / "kept", tmp_path / "figures"
    words = ["reproduce", "economic", str(tmp_path), "--quick", "--seeds", "2"]
    words += ["--models", str(kept), "--json"]
    document = typed.json(*words, "--plot", figures)
    assert document["paper"] == "economic"
    assert document["seeds"] == [0, 1]
    assert all(set(claim) >= CONTRACT for claim in document["claims"])
    groups = {claim["name"].split(":")[0].split(",")[0] for claim in document["claims"]}
    numbers = ["10", "11", "12-13", "14", "15", "16", "17", "18"]
    assert groups >= {"goal", "logs of untouched weeks", *(f"Fig. {number}" for number in numbers)}
    assert len(document["combinations"]) == (len(EXTRACTS) + 1) * 2 * 2 * 6
    assert all(row["UF1"] > 0.5 for row in document["combinations"])
    assert len(document["controls"]) == (len(EXTRACTS) + 1) * len(CONFIGURATIONS)
    assert all(row["2"] > 0.5 for row in document["hops"])
    against = [each["name"] for each in document["claims"] if "Fig. 10, 10-20k" in each["name"]]
    assert [name.split(": ")[1].split()[0] for name in against] == list(CONFIGURATIONS)
    ours = [each for each in document["claims"] if "rescheduling" in each["name"]]
    assert {each["algorithm"] for each in ours} == {"ours"}
    manifest = json.loads((figures / "economic.json").read_text())
    assert manifest["figures"] == {
        Path(path).name: file_checksum(Path(path)) for path in document["figures"]
    }
    assert len(document["figures"]) == 4

    written = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    lost = sorted(kept.iterdir())[0]
    lost.unlink()
    again = typed.json(*words)
    assert again["claims"] == document["claims"]
    left = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert left.keys() == written.keys()
    assert {name for name in left if left[name] != written[name]} == {lost.name}
    table = typed.out(*(word for word in words if word != "--json"))
    assert "AWRT over EASY's with user estimates" in table
    assert "MF6" in table


@pytest.mark.study
def test_a_log_too_short_for_the_extracts_is_refused(tmp_path: Path, typed: Typed) -> None:
    write_log(tmp_path, jobs=50)
    assert "has 50 jobs that ran: the extracts need 70000" in typed.refused(
        "reproduce", "economic", tmp_path
    )


TRACES = os.environ.get("SLURM_RL_TRACES")
JOBS_PREDICTIONS = 400
#: Cells that do not come out within 3 %, all of them of predictions that are outlived.
DIFFERENT = {
    "CTC-SP2: EASY++, last two runs, doubled",
    "CTC-SP2: EASY, predicted, last two runs, doubled",
    "CTC-SP2: EASY, predicted, last two runs, then request",
    "CTC-SP2: EASY, predicted, last two runs, stepped",
    "SDSC-SP2: EASY, predicted, last two runs, doubled",
}


def write_logs(folder: Path) -> None:
    """Both logs: jobs of ten users, some without a time limit or with one that is too short."""
    for seed, file in enumerate(LOGS.values()):
        rng = np.random.default_rng(seed)
        submit = np.sort(rng.integers(0, JOBS_PREDICTIONS * 20, JOBS_PREDICTIONS) * 60)
        run = rng.lognormal(7.5, 1.5, JOBS_PREDICTIONS).astype(int) + 1
        asked = run * rng.integers(1, 6, JOBS_PREDICTIONS)
        asked[::9] = run[::9] // 2 + 1
        asked[::50] = -1
        width = rng.integers(1, 64, JOBS_PREDICTIONS)
        lines = ["; MaxProcs: 128"] + [
            f"{job + 1} {submit[job]} -1 {run[job]} {width[job]} -1 -1 {width[job]} {asked[job]} "
            f"-1 1 {job % 10} 1 -1 1 -1 -1 -1"
            for job in range(JOBS_PREDICTIONS)
        ]
        (folder / f"{file}.swf").write_text("\n".join(lines) + "\n")


@pytest.mark.study
def test_every_cell_and_the_one_method_are_told_and_kept(tmp_path: Path, typed: Typed) -> None:
    write_logs(tmp_path)
    words = ["reproduce", "backfilling-predictions", str(tmp_path), "--quick", "--models"]
    words.append(str(tmp_path / "kept"))
    document = typed.json(*words, "--plot", str(tmp_path / "figures"))
    assert document["jobs"] == dict.fromkeys(LOGS, JOBS_PREDICTIONS - JOBS_PREDICTIONS // 50)
    cells = [each for each in document["claims"] if ONE_METHOD not in each["name"]]
    assert len(cells) == len(LOGS) * len(CELLS)
    assert len(document["claims"]) - len(cells) == len(LOGS) * 3
    of = {each["name"]: each["measured"] for each in cells}
    for log, front in document["settings"].items():
        assert of[f"{log}: EASY, request"] == of[f"{log}: EASY, predicted, request"]
        assert of[f"{log}: EASY-SJBF, request"] == of[f"{log}: EASY++, request"]
        assert [row["slack"] for row in front] == list(SETTINGS)
    assert [Path(each).read_bytes()[:4] for each in document["figures"]] == [b"\x89PNG"]
    assert len(list((tmp_path / "kept").iterdir())) == len(LOGS)
    _, _, table = typed.out(*words).partition("The one method under other settings")
    head, first = table.splitlines()[1:3]
    assert head.split()[:3] == ["LOG", "SLACK", "BSLD"]
    assert first.split()[:2] == [next(iter(LOGS)), "0.100"]


@pytest.mark.study
@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
def test_all_cells_but_those_named_come_out(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_RL_TRACES", str(TRACES))
    claims = typed.json("reproduce", "backfilling-predictions")["claims"]
    cells = [each for each in claims if ONE_METHOD not in each["name"]]
    assert {each["name"] for each in cells if each["verdict"] != "reproduces"} == DIFFERENT
    exact = [each for each in cells if each["because"].startswith("1.000 of the published")]
    assert len([each for each in exact if each["name"].startswith("CTC-SP2")]) == 10


def test_a_log_without_requests_is_refused(tmp_path: Path, typed: Typed) -> None:
    for file in LOGS.values():
        line = "1 0 -1 60 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1"
        (tmp_path / f"{file}.swf").write_text(f"; MaxProcs: 128\n{line}\n")
    assert "has no job that ran and asked for a time" in typed.refused(
        "reproduce", "backfilling-predictions", tmp_path
    )


WORDS_UTILITIES = ["reproduce", "site-utilities"]


@pytest.mark.study
def test_it_fits_routes_draws_and_does_the_same_again(
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = lpc_like_log()
    monkeypatch.setattr(site_utilities, "read_lpc", lambda folder: log)
    models, figures = tmp_path / "models", tmp_path / "figures"
    words = [*WORDS_UTILITIES, str(tmp_path), "--quick", "--seeds", "2", "--models", str(models)]
    first = typed.json(*words, "--plot", figures)
    assert first["paper"] == "site-utilities"
    assert first["seeds"] == [0, 1]
    judged = [claim for claim in first["claims"] if claim["verdict"]]
    assert [claim["name"].rpartition("of ")[2] for claim in judged] == [
        "random",
        "least loaded",
        "earliest start",
    ]
    assert all(set(claim["baselines"]) >= {"random"} for claim in judged)
    assert all(Path(path).read_bytes()[:4] == b"\x89PNG" for path in first["figures"])
    manifest = json.loads((figures / "site-utilities.json").read_text())
    assert manifest["command"] == shlex.join(
        ["slurm-rl", *WORDS_UTILITIES, str(tmp_path), "--seeds", "2", "--quick"]
    )
    for name, checksum in manifest["figures"].items():
        assert hashlib.sha256((figures / name).read_bytes()).hexdigest() == checksum
    written = {path: path.stat().st_mtime_ns for path in models.iterdir()}
    fitted = [path for path in written if path.suffix == ".onnx"]
    assert {load_q_network(path).card.sha256 for path in fitted} == {*first["models"].values()}
    kept = [path for path in written if path.suffix == ".json"]
    assert [path.stem[-2:] for path in sorted(kept)] == ["-0", "-1"]
    kept[0].unlink()  # as if it had been interrupted before that seed
    del written[kept[0]]
    table = typed.out(*words)
    value = next(claim["measured"] for claim in first["claims"] if ": random, J" in claim["name"])
    assert f"{value:.4g}" in table
    again = {path: path.stat().st_mtime_ns for path in models.iterdir()}
    assert {path: again[path] for path in written} == written
    assert {*again} == {*written, kept[0]}


@pytest.mark.study
def test_the_study_tells_what_it_claims(typed: Typed, tmp_path: Path) -> None:
    words = ["reproduce", "switchback", "--quick"]
    document = typed.json(*words, "--seeds", "3", "--plot", tmp_path)
    assert document["seeds"] == [0, 1, 2]
    goals = [claim for claim in document["claims"] if claim["verdict"]]
    assert [claim["printed"] for claim in goals] == [0.05, 0.80, 0.95]
    assert {claim["source"] for claim in goals} == {"goal"}
    assert all(claim["ci95"] for claim in document["claims"])
    assert set(document["by_goal"]) == set(KINDS)
    assert all(set(each) == set(GOALS) for each in document["by_goal"].values())
    assert {Path(each).name for each in document["figures"]} == {
        "switchback-sequences.png",
        "switchback-times.png",
        "switchback-harm.png",
    }
    assert all(Path(each).stat().st_size > 10_000 for each in document["figures"])
    assert "off within 48 hours" in typed.out(*words)


@pytest.mark.study
def test_a_gain_is_what_it_is_said_to_be() -> None:
    for seed in (40_001, 40_002):
        ratio = with_gain(seed, 28, 0.15).slowdown("ours") / equal_models(seed, 28).slowdown("site")
        assert ratio == pytest.approx(0.85, abs=0.02)


@pytest.mark.study
@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_is_the_same_each_time(kind: str) -> None:
    one, same = (held_trial(kind, 40_003, TrialLength(days=4)) for _ in range(2))
    assert (one.costs.measured == same.costs.measured).all()
    assert (one.off, one.ratio, one.really) == (same.off, same.ratio, same.really)
    assert one.hours(None) == float("inf")
    assert one.hours(len(one.declared.blocks)) == pytest.approx(96.0)
    assert one.hours(one.blocks_within(SOON)) <= SOON
    assert one.damage(0) == (0.0, 0.0)
    if kind == EQUAL:
        assert one.ratio == 1.0
    if kind == GAIN:
        assert one.ratio == pytest.approx(0.85, abs=0.02)
    if kind == HARM:
        assert one.ratio > 1.5
        assert one.really


@rows_of("reproduce")
def test_one_sentence_says_what_to_give(
    words: str, said: str, tmp_path: Path, typed: Typed
) -> None:
    status, out, err = typed("reproduce", *words.replace("FOLDER", str(tmp_path)).split())
    assert (status, out) == (2, "")
    [sentence] = [each for each in err.splitlines() if "left out" not in each]
    assert said in sentence
