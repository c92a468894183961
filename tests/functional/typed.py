"""`slurm-rl` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.case_files import FOLDER, tables, tried

TABLES = tables("refused", "words")


def asset(name: str) -> str:
    """The text of a file of tests/assets."""
    return (FOLDER.parent / name).read_text()


def rows_of(name: str) -> pytest.MarkDecorator:
    """Tries each row of a table: `words`, and a part of what is `said` of them."""
    return tried(TABLES[name], "words said")


class Typed:
    """The command as a user types it, in this process."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], *before: str, after: Sequence[str] = ()
    ) -> None:
        self.capsys, self.before, self.after = capsys, before, after

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self.capsys.readouterr()
        try:
            status = main([str(word) for word in (*self.before, *words, *self.after)])
        except SystemExit as stop:  # of the parser
            status = int(stop.code or 0)
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def out(self, *words: object) -> str:
        """Standard output of a command that succeeds."""
        status, out, err = self(*words)
        assert status == 0, err
        return out

    def failing(self, *words: object, code: int = 1) -> str:
        """What a command says, on either stream, that ends with this exit code."""
        status, out, err = self(*words)
        assert status == code, out + err
        return out + err

    def json(self, *words: object, code: int | None = 0) -> Any:
        """The document that a command prints, which ends with an exit code, or with any."""
        status, out, err = self(*words, "--json")
        assert code in (None, status), err
        return json.loads(out)

    def refused(self, *words: object) -> str:
        """The one sentence of a command that ends with exit code 2 and says nothing else."""
        status, out, err = self(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        return err
