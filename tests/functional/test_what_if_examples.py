"""The worked examples of docs/what-if.md are what the commands print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP, all_commands, code_blocks
from tests.functional.typed import Typed

TRACES = os.environ.get("SLURM_RL_TRACES")
PAGE = TOP / "docs" / "what-if.md"
SHOWN = [block.text.strip().splitlines() for block in code_blocks(PAGE) if "what-if" in block.kind]
COMMANDS = [
    each for each in all_commands() if each.words[:1] == ("what-if",) and "ubhpc" in str(each)
]


@pytest.mark.study
@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
@pytest.mark.parametrize("example", [0, 1])
def test_an_example_is_what_is_printed(
    example: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: Typed,
) -> None:
    assert len(COMMANDS) == len(SHOWN) == 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").symlink_to(str(TRACES))
    printed = [" ".join(line.split()) for line in typed.out(*COMMANDS[example].words).splitlines()]
    assert [line for line in SHOWN[example] if " ".join(line.split()) not in printed] == []
    assert list((tmp_path / "drawn").glob("variant-*.png"))
