"""Claims, the command, and every published cell where the traces are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.papers.rlscheduler_2020.study import reproduce
from slurm_rl_plugin.papers.study.claims import Claim

pytestmark = pytest.mark.study

TRACES = os.environ.get("SLURM_RL_TRACES")
needs_traces = pytest.mark.skipif(
    not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces"
)


def test_a_faulty_trace_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lublin_256.swf").write_text("; MaxNodes: 256\n1 2 3 four\n")
    assert main(["reproduce", "rlscheduler", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    return reproduce(Path(TRACES or ""))


@needs_traces
@pytest.mark.parametrize(
    ("group", "cells"),
    [
        ("no backfilling", 24),
        ("their backfilling", 24),
        ("no backfilling, wait mended", 8),
        ("EASY, our kernel", 24),
        ("no backfilling, our kernel", 1),
    ],
)
def test_every_cell_reproduces(claims: list[Claim], group: str, cells: int) -> None:
    found = [each for each in claims if each.cell.group == group]
    assert len(found) == cells
    assert [each.as_json() for each in found if not each.reproduces] == []


@needs_traces
def test_the_command_prints_one_document_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "rlscheduler", "--json", "--plot", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["paper"] == "rlscheduler"
    assert len(document["seeds"]) == 10
    assert {"name", "printed", "measured", "difference", "verdict", "because"} <= set(
        document["claims"][0]
    )
    assert [Path(path).read_bytes()[:4] for path in document["figures"]] == [b"\x89PNG"]
