"""`slurm-rl reproduce economic` as a user types it, on a log small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.papers.economic_2002.markets import CONFIGURATIONS, CTC, EXTRACTS, QUICK_JOBS
from tests.functional.typed import Typed

pytestmark = pytest.mark.study

CONTRACT = {"name", "algorithm", "printed", "measured", "ci95", "baselines", "verdict", "because"}
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
    table = typed.out(word for word in words if word != "--json")
    assert "AWRT over EASY's with user estimates" in table
    assert "MF6" in table


def test_a_log_too_short_for_the_extracts_is_refused(tmp_path: Path, typed: Typed) -> None:
    write_log(tmp_path, jobs=50)
    assert "has 50 jobs that ran: the extracts need 70000" in typed.refused(
        "reproduce", "economic", tmp_path
    )
