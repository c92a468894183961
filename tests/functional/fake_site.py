"""A folder with a fake Slurm and a configuration, and the commands of its administrator."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.fake_cluster import FakeCluster
from tests.functional.typed import Typed

#: Name of each check -> its result and what it says.
Checks = dict[str, tuple[str, str]]


class FakeSite(Typed):
    """Without any job at first; `configure` and `append` write `site.toml` anew."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        super().__init__(capsys, after=("--config", "site.toml"))
        self.folder, self.cluster = folder, FakeCluster(folder)
        self.now = int(time.time())  # noqa: TID251 - the clock of the commands
        self.cluster.set(now=self.now)
        self.cluster.enter(monkeypatch)
        monkeypatch.chdir(folder)
        self.state_file = folder / "state.json"
        self.sections: dict[str, dict[str, Any]] = {"policy": {"model": "sjf"}}
        self.further = ""
        self.configure("metrics", port=0)
        self.configure(
            "hook",
            mode="active",
            influence_hours=0,
            disable_file=f"{folder}/DISABLE",
            state_file=f"{folder}/state.json",
            audit_file=f"{folder}/audit.jsonl",
        )

    def configure(self, section: str, **values: Any) -> None:
        """Set keys of a section, or leave the whole section out."""
        if values:
            self.sections.setdefault(section, {}).update(values)
        else:
            self.sections.pop(section, None)
        self.append("")

    def append(self, lines: str) -> None:
        """Add sections as they are written."""
        self.further += lines
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in keys.items())
            for name, keys in self.sections.items()
        )
        (self.folder / "site.toml").write_text(text + self.further)

    def wait(self, job: int, seconds: int = 99, **values: Any) -> None:
        """Add a job that was submitted and eligible some seconds ago."""
        when = self.now - seconds
        self.cluster.add(job, **{"submit": when, "eligible": when, **values})

    def factors(self, *jobs: int) -> list[int]:
        """The factors that jobs carry."""
        return [self.cluster.record(job)["site"] for job in jobs]

    def audited(self, *events: str) -> list[dict[str, Any]]:
        """The lines of the audit log, of some events alone where they are named."""
        lines = map(json.loads, (self.folder / "audit.jsonl").read_text().splitlines())
        return [line for line in lines if not events or line["event"] in events]

    def checks(self, *words: str) -> Checks:
        status, out, _ = self("check", "--json", *words)
        checks = json.loads(out)["checks"]
        found = {each["name"]: (each["result"], each["what"]) for each in checks}
        assert status == int(any(result == "fail" for result, _ in found.values()))
        assert len(found) == len(checks)
        return found
