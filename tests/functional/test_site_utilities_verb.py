"""`slurm-rl reproduce site-utilities` as a user types it, small."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import pytest

from slurm_rl_plugin.papers.site_utilities_2008 import experiment as site_utilities
from slurm_rl_plugin.policies.q_network import load_q_network
from tests.functional.lpc_like import lpc_like_log
from tests.functional.typed import Typed

pytestmark = pytest.mark.study

WORDS = ["reproduce", "site-utilities"]


def test_it_fits_routes_draws_and_does_the_same_again(
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = lpc_like_log()
    monkeypatch.setattr(site_utilities, "read_lpc", lambda folder: log)
    models, figures = tmp_path / "models", tmp_path / "figures"
    words = [*WORDS, str(tmp_path), "--quick", "--seeds", "2", "--models", str(models)]
    first = typed.json(*words, "--json", "--plot", figures)
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
        ["slurm-rl", *WORDS, str(tmp_path), "--seeds", "2", "--quick"]
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
