"""Printed figures, their verdicts, the command, and the rows that must reproduce."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.papers.heuristics.experiment import FRACTIONS, reproduce
from slurm_rl_plugin.papers.study.claims import Row

pytestmark = pytest.mark.study

TRACES = os.environ.get("SLURM_RL_TRACES")
needs_traces = pytest.mark.skipif(
    not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces"
)


def test_generated_loads_need_no_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)
    words = ["reproduce", "heuristics", "--seeds", "2", "--json", "--plot", str(tmp_path)]
    assert main(words) == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert (document["paper"], document["seeds"]) == ("heuristics", [0, 1])
    assert [Path(path).read_bytes()[:4] for path in document["figures"]] == [b"\x89PNG"] * 2
    assert "left out" in output.err
    measured = {each["name"]: each["measured"] for each in document["claims"]}
    assert {name.partition(":")[0] for name in measured} == {
        "EGEE-like",
        *(f"2008, p = {p}" for p in FRACTIONS),
    }
    # two classes of estimates in order of length are the two classes in turn
    shortest = measured["2008, p = 0.2: SJF EST, mean wait"]
    assert shortest == measured["2008, p = 0.2: interactive first, mean wait"]


@pytest.fixture(scope="module")
def claims() -> list[Row]:
    return reproduce(40, Path(TRACES or ""), lambda _: None)


@needs_traces
def test_what_reproduces_and_what_does_not(claims: list[Row]) -> None:
    for each in claims:
        known = (
            each.cell.column == "J"  # nominal shares
            or each.cell.group == "EGEE-like"  # an open description
            or (each.cell.policy.startswith("utility-greedy") and "interactive" in each.cell.column)
            or (each.cell.group[-2:] in ("17", "18") and "within" in each.cell.column)
        )
        assert known or each.reproduces is not False, each.as_json()
