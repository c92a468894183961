"""Cycles step by step: tests/assets/cycle_scenarios.toml says what happens and what must follow."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from slurm_rl_plugin import errors
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport, Pace
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, ReserveRail, ReserveSettings
from tests.architecture.markdown_documents import TOP
from tests.unit.hook.queues import (
    FACTS,
    CountedStop,
    CountingPolicy,
    LimitedQueue,
    audit_lines,
    cycle_over,
    daemon_of,
    memory_of,
    pending_jobs,
    state_jobs,
)

SCENARIOS = tomllib.loads((TOP / "tests/assets/cycle_scenarios.toml").read_text())
#: Keys of all and of each kind, and of a step. A misspelt one would leave a promise untried.
KEYS = {"promise", "native", "scores", "columns", "settings", "limit", "bound"}
KEYS_OF = {"scenario": {"steps"}, "daemon": {"begin", "pace", "waits", "between", "then"}}
KEYS_OF_STEP = {"native", "columns", "touch", "exempt", "known"} | {
    "breaks",
    "fault",
    "set",
    "seconds",
}


class Wishing(CountingPolicy):
    """Wants a number of processors kept free; without scores the later job comes first."""

    reserve: int | None = None

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        given = self.scores
        if given == "later":
            self.scores = snapshot.pending.jobs.job_id.tolist()
        try:
            return replace(super().decide(snapshot, memory), reserve=self.reserve)
        finally:
            self.scores = given


class Scene:
    """A cycle over a queue of 4 processors, and the clock of its limit."""

    def __init__(self, folder: Path, given: Mapping[str, Any]) -> None:
        self.folder, self.seconds, self.policy = folder, 0.0, Wishing(given.get("scores", "later"))
        columns, self.given = dict(given.get("columns", {})), given
        if "points" in columns:
            columns["standing"] = columns.pop("points")
        if "limit" in given:
            columns.setdefault("interactive", [False, False, True])
            self.policy.reserve = given["limit"]
        jobs = pending_jobs(given.get("native", [3, 2, 1]), **columns)
        self.queue = LimitedQueue(jobs, file=folder / "limits")
        self.cycle = self.fresh_cycle()

    def fresh_cycle(self) -> Cycle:
        rail, settings = None, self.given.get("settings", {})
        if "limit" in self.given:
            rail = ReserveRail(ReserveSettings(most=2, change_interval=60.0))
        bound = self.given.get("bound", math.inf)
        cycle = cycle_over(self.queue, self.policy, self.folder, rail, bound, **settings)
        file = self.queue.file
        cycle.limit = BatchLimit(rail=rail, path=file, monotonic=lambda: self.seconds)
        return cycle

    @property
    def pending(self) -> object:
        return self.queue.pending

    def change(self, step: Mapping[str, Any]) -> None:
        """What has happened before the step's cycle."""
        self.seconds += step.get("seconds", 0)
        self.queue.written.clear()
        if "native" in step:
            self.queue.add(step["native"], **step.get("columns", {}))
        if "touch" in step:
            (self.folder / step["touch"]).touch()
        if "exempt" in step:
            self.cycle.untouched = UntouchedJobs(accounts=step["exempt"])
        if "known" in step:
            self.queue.known = replace(FACTS, **step["known"])
        if "fault" in step:
            known = {"none": None, "ZeroDivisionError": ZeroDivisionError, **vars(errors)}
            kind = known[step["fault"]]
            self.queue.fault = None if kind is None else kind("a fault")
        if step.get("breaks") == "audit":
            path = self.folder / "audit.jsonl"
            path.unlink()
            path.mkdir()
        elif "breaks" in step:
            setattr(self.queue, step["breaks"], not_understood)
        for path, value in step.get("set", {}).items():
            *way, last = path.split(".")
            at: Any = self
            for name in way:
                at = getattr(at, name)
            if isinstance(at, np.ndarray):
                at[int(last)] = value
            elif isinstance(getattr(at, last), np.ndarray):
                getattr(at, last)[:] = value
            else:
                setattr(at, last, value)

    def after(self, name: str, report: CycleReport | None) -> Any:
        """The value of a name in `then`."""
        seen: dict[str, Any] = {
            "order": self.queue.order,
            "factors": self.queue.pending.factor.tolist,
            "written": lambda: [change.job_id for change in self.queue.written],
            "wrote": lambda: [[each.job_id, each.new] for each in self.queue.written],
            "decided": lambda: [place + 1 for place in report.order],
            "asked": lambda: self.policy.asked,
            "limits": lambda: ["none" if each is None else each for each in self.queue.limits],
            "state": lambda: state_jobs(self.folder),
            "memory": lambda: list(memory_of(self.folder).read()),
            "remembered": lambda: list(self.cycle._guard.memory),
        }
        if name in seen:
            return seen[name]()
        if name.startswith("audited."):
            return audit_lines(self.folder)[-1 if report.of_new_jobs else 0][name[8:]]
        found: Any = report
        for part in name.split("."):
            found = found[part] if isinstance(found, Mapping) else getattr(found, part)
        return found


def not_understood() -> NoReturn:
    raise errors.BatchSystemError("a command answered a line that is not understood")


def is_so(found: Any, wanted: Any) -> bool:
    if wanted == "none":
        return found is None
    if isinstance(wanted, str) and wanted.startswith("> "):
        return bool(found > int(wanted[2:]))
    if isinstance(wanted, str) and wanted.startswith("~ "):
        return wanted[2:] in str(found)
    return bool(found == wanted)


def test_each_key_is_one_that_is_played() -> None:
    assert SCENARIOS.keys() == KEYS_OF.keys()
    for kind, entries in SCENARIOS.items():
        assert len({given["promise"] for given in entries}) == len(entries)
        for given in entries:
            assert given.keys() <= KEYS | KEYS_OF[kind], given["promise"]
            changes = [given.get("begin", {}), *given.get("between", {}).values()]
            for step in [*given.get("steps", ()), *changes]:
                of_scenario = {"run", "then"} if kind == "scenario" else set()
                assert step.keys() <= KEYS_OF_STEP | of_scenario, given["promise"]
                assert step.get("run", "remember") in ("remember", "reload", "release", "new_jobs")
            assert kind == "daemon" or any("then" in step for step in given["steps"])


@pytest.mark.parametrize("given", SCENARIOS["scenario"], ids=lambda given: given["promise"])
def test_scenario(tmp_path: Path, given: Mapping[str, Any]) -> None:
    scene = Scene(tmp_path, given)
    for number, step in enumerate(given["steps"], start=1):
        scene.change(step)
        how, report = step.get("run", "cycle"), None
        if how == "remember":
            scene.cycle.remember()
        elif how == "reload":
            earlier, scene.cycle = scene.cycle, scene.fresh_cycle()
            scene.cycle.limit.go_on_from(earlier.limit)
        elif how == "release":
            with suppress(errors.BatchSystemError):
                scene.cycle.release()
        else:
            report = scene.cycle.run(new_jobs=how == "new_jobs")
        for name, wanted in step.get("then", {}).items():
            found = scene.after(name, report)
            assert is_so(found, wanted), f"step {number}: {name} is {found!r}, not {wanted!r}"


@pytest.mark.parametrize("given", SCENARIOS["daemon"], ids=lambda given: given["promise"])
def test_daemon(tmp_path: Path, given: Mapping[str, Any]) -> None:
    scene, alive = Scene(tmp_path, given), list[None]()
    scene.change(given.get("begin", {}))
    stop = CountedStop(
        given["waits"], lambda number: scene.change(given["between"].get(str(number), {}))
    )
    daemon, reports = daemon_of(scene.cycle, stop, pace=Pace(**given["pace"]))
    daemon.disable_file, daemon.alive = tmp_path / "DISABLE", lambda: alive.append(None)
    daemon.run()
    seen: dict[str, Any] = {"pauses": stop.pauses, "alive": len(alive)}
    for name, wanted in given["then"].items():
        found = seen[name] if name in seen else [getattr(each, name) for each in reports]
        assert is_so(found, wanted), f"{name} is {found!r}, not {wanted!r}"
