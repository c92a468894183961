"""The words of `slurm-rl start`: a job, or a command whose options are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.forecasts.service_client import ServiceClient

_BOTH = "is neither a job nor a command: give a job's number, such as 123"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("abc", _BOTH),
        ("-1", _BOTH),
        ("job.sh", "give the command to submit with behind --, such as -- sbatch job.sh."),
        ("12x", "'12x' is no job: give a number"),
    ],
)
def test_a_single_word(
    word: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").touch()
    assert main(["start", word]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert (_BOTH in said) == (sentence == _BOTH)


@pytest.mark.parametrize(
    ("memory", "in_all", "goes"),
    [("--mem-per-cpu=2000", 8000.0, True), ("--mem=2000", 2000.0, False)],
)
def test_the_service_is_told_whether_memory_goes_with_processors(
    memory: str, in_all: float, goes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Mapping[str, Any]] = []

    def told(client: ServiceClient, request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ServiceClient, "post", told)
    assert main(["start", "--json", "--", "sbatch", "-n4", memory, "--wrap", "true"]) == 0
    assert (asked[0]["memory"], asked[0]["memory_per_cpu"]) == (in_all, goes)
