"""`slurm-rl` as a user types it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main

TABLES = tomllib.loads((Path(__file__).parents[1] / "assets" / "refused.toml").read_text())


def refused(table: str) -> pytest.MarkDecorator:
    """Tries each row of a table of refused.toml: `words`, and a part of what is `said` of them."""
    return pytest.mark.parametrize(("words", "said"), TABLES[table].items())


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
