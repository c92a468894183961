"""`slurm-rl reproduce learning-agents` as a user types it, small."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from slurm_rl_plugin.papers.learning_agents_2005.experiment import QUICK, steps
from tests.functional.typed import Typed

pytestmark = pytest.mark.study

WORDS = ["reproduce", "learning-agents", "--quick"]
CONTRACT = {"name", "algorithm", "printed", "measured", "ci95", "baselines", "verdict", "because"}


def test_figures_claims_and_manifest(tmp_path: Path, typed: Typed) -> None:
    folder = tmp_path / "figures"
    document = typed.json(*WORDS, "--seeds", "3", "--json", "--plot", folder)
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
    again = typed.json(*WORDS, "--seeds", "3", "--json")
    assert again["claims"] == document["claims"]
    assert again["figures"] == []


def test_an_interrupted_run_goes_on_with_what_it_kept(tmp_path: Path, typed: Typed) -> None:
    def claims(*more: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = typed.json(*WORDS, "--seeds", "2", "--json", *more)[
            "claims"
        ]
        return found

    kept = ["--models", str(tmp_path)]
    expected = claims()
    assert claims(*kept) == expected
    files = sorted(tmp_path.iterdir())
    content = [path.read_bytes() for path in files]
    for path in files[::2]:  # as if it had been interrupted
        path.unlink()
    assert claims(*kept) == expected
    assert [path.read_bytes() for path in files] == content
    for path in files:  # what is kept is not simulated again
        path.write_text(re.sub(r'"load": [^,]+', '"load": 77.0', path.read_text()))
    loads = [each["measured"] for each in claims(*kept) if str(each["name"]).endswith(", load")]
    assert set(loads) == {77.0}
    assert len(loads) == steps(QUICK, 1)


def test_the_table_says_what_does_not_reproduce(typed: Typed) -> None:
    printed = typed.out(*WORDS, "--seeds", "2")
    assert "probing agents, load / paper's agents" in printed
    assert " reproduce. By our reading of words that have no number, " in printed
    assert " goals of this project are met. What does not:" in printed
    assert "1.2 (ours)" in printed
    assert "0.65 (goal)" in printed
    assert ", a factor that this project chose: holds from " in printed
