"""`slurm-rl start WORD`: a word that is neither a job nor a command is told both possibilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main

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
