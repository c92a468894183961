"""`slurm-rl reproduce` as a user types it, small; and what it cannot run."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.learning.manifest import file_checksum
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
from tests.functional.small_site import lpc_like_log
from tests.functional.typed import Typed, rows_of

#: Papers that write a file next to their figures.
DESCRIBED = ("economic", "learning-agents", "site-utilities")
CONTRACT = {"name", "algorithm", "printed", "measured", "ci95", "baselines", "verdict", "because"}


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)


def reproduced(typed: Typed, folder: Path, paper: str, *words: object, figures: int) -> Any:
    """The document of a small run, which is drawn; a second run goes on where one file is lost."""
    small = ["reproduce", paper, *words, "--quick"]
    models, drawn = folder / "kept", folder / "figures"
    document = typed.json(*small, "--models", models, "--plot", drawn)
    assert document["paper"] == paper
    if "--seeds" in words:
        assert len(document["seeds"]) == words[words.index("--seeds") + 1]
    assert all(set(claim) >= CONTRACT for claim in document["claims"])
    assert len(document["figures"]) == figures
    assert all(Path(path).read_bytes()[:4] == b"\x89PNG" for path in document["figures"])
    manifest = drawn / f"{paper}.json"
    assert manifest.exists() == (paper in DESCRIBED)
    if manifest.exists():
        kept = json.loads(manifest.read_text())
        assert kept["command"] == shlex.join(["slurm-rl", *map(str, small)])
        assert kept["figures"] == {path.name: file_checksum(path) for path in drawn.glob("*.png")}
    written = {path.name: path.stat().st_mtime_ns for path in models.glob("*")}
    lost = min(models.glob("*.json"), default=models / "none")
    lost.unlink(missing_ok=True)
    again = typed.json(*small, "--models", models)
    assert (again["claims"], again["figures"]) == (document["claims"], [])
    left = {path.name: path.stat().st_mtime_ns for path in models.glob("*")}
    assert left.keys() == written.keys()
    renewed = {name for name in left if left[name] != written[name]}
    assert renewed <= {lost.name, lost.with_suffix(".onnx").name}
    return document


def written_log(path: Path, processors: int, *columns: Any) -> None:
    """An SWF file of submissions, run times, widths, requested times and users."""
    lines = [f"; MaxProcs: {processors}"] + [
        f"{job} {submit} -1 {run} {wide} -1 -1 {wide} {asked} -1 1 {user} 1 -1 1 -1 -1 -1"
        for job, (submit, run, wide, asked, user) in enumerate(zip(*columns, strict=True), start=1)
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.study
@pytest.mark.parametrize(
    ("paper", "judged"),
    [
        ("reactive-grids", {"paper": 76, "ours": 35, "goals": 18}),
        ("non-markovian", {"paper": 90, "ours": 120}),
    ],
)
def test_a_paper_is_judged_by_whose_algorithm_it_measures(
    paper: str, judged: dict[str, int], tmp_path: Path, typed: Typed
) -> None:
    document = reproduced(typed, tmp_path, paper, "--seeds", 2, figures=3)
    assert {claim["verdict"] for claim in document["claims"]} == {"reproduces", "does not"}
    assert {whose: each["judged"] for whose, each in document["counts"].items()} == judged
    if paper == "reactive-grids":
        _check_on_line_and_shipped(document)


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
    document = reproduced(typed, tmp_path, "responsive-reserve", "--seeds", 2, figures=1)
    goals = [claim for claim in document["claims"] if claim["source"] == "goal"]
    assert len(goals) == 3 * 11
    assert all(set(claim["baselines"]) == {"FIFO", "SJF oracle"} for claim in goals)
    names = {claim["name"].partition(": ")[2].partition(", J")[0] for claim in document["claims"]}
    assert {"FIFO", "interactive first", "SJF oracle, 4 held", "SARSA", "hold EST"} <= names


@pytest.mark.study
def test_agents_are_judged_by_figures_and_goals(tmp_path: Path, typed: Typed) -> None:
    document = reproduced(typed, tmp_path, "learning-agents", "--seeds", 3, figures=4)
    judged = [claim for claim in document["claims"] if claim["verdict"] is not None]
    assert [claim["source"] for claim in judged].count("goal") == 6
    for figure in range(2, 6):
        assert any(claim["name"].startswith(f"Fig. {figure}") for claim in judged)


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
    written_log(folder / f"{CTC}.swf", 338, submit, run, wide, asked, np.arange(jobs) % 7)


@pytest.mark.study
def test_the_market_is_measured_in_every_combination(tmp_path: Path, typed: Typed) -> None:
    write_log(tmp_path)
    document = reproduced(typed, tmp_path, "economic", tmp_path, "--seeds", 2, figures=4)
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
    words = ["--quick", "--seeds", 2, "--models", tmp_path / "kept"]
    table = typed.out("reproduce", "economic", tmp_path, *words)
    assert "\ncombinations:" in table
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


@pytest.mark.study
def test_every_cell_and_the_one_method_are_told_and_kept(tmp_path: Path, typed: Typed) -> None:
    jobs = JOBS_PREDICTIONS
    for seed, file in enumerate(LOGS.values()):  # some have no time limit, or one that is too short
        rng = np.random.default_rng(seed)
        submit = np.sort(rng.integers(0, jobs * 20, jobs) * 60)
        run = rng.lognormal(7.5, 1.5, jobs).astype(int) + 1
        asked = run * rng.integers(1, 6, jobs)
        asked[::9] = run[::9] // 2 + 1
        asked[::50] = -1
        width = rng.integers(1, 64, jobs)
        written_log(tmp_path / f"{file}.swf", 128, submit, run, width, asked, np.arange(jobs) % 10)
    document = reproduced(typed, tmp_path, "backfilling-predictions", tmp_path, figures=1)
    assert document["jobs"] == dict.fromkeys(LOGS, jobs - jobs // 50)
    cells = [each for each in document["claims"] if ONE_METHOD not in each["name"]]
    assert len(cells) == len(LOGS) * len(CELLS)
    assert len(document["claims"]) - len(cells) == len(LOGS) * 3
    of = {each["name"]: each["measured"] for each in cells}
    for log, front in document["settings"].items():
        assert of[f"{log}: EASY, request"] == of[f"{log}: EASY, predicted, request"]
        assert of[f"{log}: EASY-SJBF, request"] == of[f"{log}: EASY++, request"]
        assert [row["slack"] for row in front] == list(SETTINGS)
    words = ["--quick", "--models", tmp_path / "kept"]
    told = typed.out("reproduce", "backfilling-predictions", tmp_path, *words)
    head, first = told.partition(f"settings, {next(iter(LOGS))}:")[2].splitlines()[1:3]
    assert head.split()[:2] == ["SLACK", "BOUNDED_SLOWDOWN"]
    assert first.split()[0] == "0.1"


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
        written_log(tmp_path / f"{file}.swf", 128, [0], [60], [1], [-1], [1])
    assert "has no job that ran and asked for a time" in typed.refused(
        "reproduce", "backfilling-predictions", tmp_path
    )


@pytest.mark.study
def test_it_fits_routes_and_takes_the_models_of_the_first_run(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = lpc_like_log()
    monkeypatch.setattr(site_utilities, "read_lpc", lambda folder: log)
    first = reproduced(typed, tmp_path, "site-utilities", tmp_path, "--seeds", 2, figures=3)
    judged = [claim for claim in first["claims"] if claim["verdict"]]
    baselines = ["random", "least loaded", "earliest start"]
    assert [claim["name"].rpartition("of ")[2] for claim in judged] == baselines
    assert all(set(claim["baselines"]) >= {"random"} for claim in judged)
    fitted = (tmp_path / "kept").glob("*.onnx")
    assert {load_q_network(path).card.sha256 for path in fitted} == {*first["models"].values()}
    kept = (tmp_path / "kept").glob("*.json")
    assert [path.stem[-2:] for path in sorted(kept)] == ["-0", "-1"]


@pytest.mark.study
def test_the_study_tells_what_it_claims(typed: Typed, tmp_path: Path) -> None:
    document = reproduced(typed, tmp_path, "switchback", "--seeds", 3, figures=3)
    goals = [claim for claim in document["claims"] if claim["verdict"]]
    assert [claim["printed"] for claim in goals] == [0.05, 0.80, 0.95]
    assert {claim["source"] for claim in goals} == {"goal"}
    assert all(claim["ci95"] for claim in document["claims"])
    assert set(document["by_goal"]) == set(KINDS)
    assert all(set(each) == set(GOALS) for each in document["by_goal"].values())
    assert "off within 48 hours" in typed.out("reproduce", "switchback", "--quick", "--seeds", 3)


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
