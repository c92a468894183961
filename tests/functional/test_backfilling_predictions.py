"""`slurm-rl reproduce backfilling-predictions` as a user types it, and its cells on real logs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.papers.backfilling_predictions_2015.experiment import (
    LOGS,
    ONE_METHOD,
    SETTINGS,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import CELLS
from tests.functional.typed import Typed

TRACES = os.environ.get("SLURM_RL_TRACES")
JOBS = 400
#: Cells that do not come out within 3 %, all of them of predictions that are outlived.
DIFFERENT = {
    "CTC-SP2: EASY++, last two runs, doubled",
    "CTC-SP2: EASY, predicted, last two runs, doubled",
    "CTC-SP2: EASY, predicted, last two runs, then request",
    "CTC-SP2: EASY, predicted, last two runs, stepped",
    "SDSC-SP2: EASY, predicted, last two runs, doubled",
}


def write_logs(folder: Path) -> None:
    """Both logs: jobs of ten users, some of which asked for no time or for too little."""
    for seed, file in enumerate(LOGS.values()):
        rng = np.random.default_rng(seed)
        submit = np.sort(rng.integers(0, JOBS * 20, JOBS) * 60)
        run = rng.lognormal(7.5, 1.5, JOBS).astype(int) + 1
        asked = run * rng.integers(1, 6, JOBS)
        asked[::9] = run[::9] // 2 + 1
        asked[::50] = -1
        width = rng.integers(1, 64, JOBS)
        lines = ["; MaxProcs: 128"] + [
            f"{job + 1} {submit[job]} -1 {run[job]} {width[job]} -1 -1 {width[job]} {asked[job]} "
            f"-1 1 {job % 10} 1 -1 1 -1 -1 -1"
            for job in range(JOBS)
        ]
        (folder / f"{file}.swf").write_text("\n".join(lines) + "\n")


@pytest.mark.study
def test_every_cell_and_the_one_method_are_told_and_kept(tmp_path: Path, typed: Typed) -> None:
    write_logs(tmp_path)
    words = ["reproduce", "backfilling-predictions", str(tmp_path), "--quick", "--models"]
    words.append(str(tmp_path / "kept"))
    document = typed.json(*words, "--json", "--plot", str(tmp_path / "figures"))
    assert document["jobs"] == dict.fromkeys(LOGS, JOBS - JOBS // 50)
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
def test_all_cells_but_those_named_come_out(typed: Typed) -> None:
    claims = typed.json("reproduce", "backfilling-predictions", "--json")["claims"]
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
