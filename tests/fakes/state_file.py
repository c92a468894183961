"""The state that a test and fake commands share: one JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


class StateFile:
    """Describes a cluster to its fake commands, and lets them misbehave."""

    env: dict[str, str]  #: in which the commands find the state

    def __init__(self, path: Path, state: dict[str, Any]) -> None:
        self._path = path
        self._write({"modes": {}, **state})

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let commands of this process find it too."""
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)

    def set(self, **values: Any) -> None:
        """Change the cluster: nodes, queues, shares, now, ..."""
        self._write({**self.state, **values})

    def break_command(self, command: str, mode: str) -> None:
        self.set(modes={**self.state["modes"], command: mode})

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._path.read_text())
        return state

    def _write(self, state: dict[str, Any]) -> None:
        self._path.write_text(json.dumps(state))
