"""The table for job_submit.lua: whom it puts where, for how long, and what it leaves behind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.port import ApplyReport, SchedulerFacts
from slurm_rl_plugin.batch_systems.slurm.class_defaults.table import LuaTable
from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.domain.job_class import JobClassRule
from slurm_rl_plugin.hook.class_defaults import (
    ClassDefaults,
    interactive_factor,
)
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan, planned_order
from slurm_rl_plugin.hook.rails.batch_limit import LimitReport
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.units import FloatArray
from tests.unit.hook.queues import pending_jobs, snapshot_of

FACTS = SchedulerFacts(
    release="22.05",
    lever="SiteFactor",
    harm=None,
    points_an_hour=10.0,
    pass_interval=1.0,
    in_charge=True,
)


def plan_of(native: list[int], interactive: list[bool], scores: list[float]) -> QueuePlan:
    """A queue with these priorities, ordered by these scores."""
    pending = pending_jobs(native)
    jobs = replace(pending.jobs, interactive=np.array(interactive, dtype=np.bool_))
    pending = replace(pending, jobs=jobs)
    snapshot = snapshot_of(pending)
    score: FloatArray = np.array(scores, dtype=np.float64)
    order, changes = planned_order(snapshot, score, UntouchedJobs())
    return QueuePlan(
        snapshot=snapshot,
        decision=Decision(scores=score),
        fallback_reason=None,
        order=order,
        changes=changes,
    )


class System:
    """Counts releases of every waiting job."""

    def __init__(self, *reports: ApplyReport) -> None:
        self.reports = list(reports)

    def release(self, job_ids: object = None) -> ApplyReport:
        assert job_ids is None
        return self.reports.pop(0)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.booleans()), min_size=1, max_size=12))
def test_a_new_job_stands_behind_interactive_and_before_batch_jobs(
    jobs: list[tuple[int, bool]],
) -> None:
    native, interactive = [list(each) for each in zip(*jobs, strict=True)]
    plan = plan_of(native, interactive, [float(quick) for quick in interactive])
    factor = interactive_factor(plan)
    priority = plan.priority_after
    quick = np.array(interactive, dtype=np.bool_)
    new = min(native) + factor
    assert factor == 0 if quick.all() else new > priority[~quick].max()
    if quick.any() and not quick.all():
        between = priority[quick].min() - priority[~quick].max() > 2
        assert new < priority[quick].min() or not between or factor == 0


def test_the_table_says_for_how_long_and_by_which_rules(tmp_path: Path) -> None:
    table = tmp_path / "defaults"
    rules = (
        JobClassRule(job_class="batch", qos="^bulk$"),
        JobClassRule(job_class="interactive", time_limit_at_most=60.0, no_batch_script=False),
    )
    written = LuaTable(path=table, rules=rules, life=90.0, more={"batch_qos": "bulk"})
    defaults = ClassDefaults(table=written)
    plan = plan_of([5, 9], [True, False], [1.0, 0.0])
    defaults.follow(plan, FACTS, np.inf, System())  # type: ignore[arg-type]
    now = int(plan.snapshot.now)
    lines = table.read_text().splitlines()
    assert lines[0] == "slurm-rl-class-defaults 1"
    assert lines[1:3] == [f"from {now}", f"until {now + 90}"]
    assert lines[3] == f"factor {interactive_factor(plan)}"
    assert lines[4:] == [
        "batch_qos bulk",
        "rule batch qos=bulk",
        "rule interactive time_limit_at_most=60 no_batch_script=no",
        "end",
    ]


def test_slurmctlds_user_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    table = tmp_path / "defaults"
    before = os.umask(0o027)
    try:
        ClassDefaults(table=LuaTable(path=table)).follow(
            plan_of([5], [True], [1.0]),
            FACTS,
            np.inf,
            System(),  # type: ignore[arg-type]
        )
    finally:
        os.umask(before)
    assert table.stat().st_mode & 0o777 == 0o644


def factor_in(table: Path) -> int:
    (line,) = [each for each in table.read_text().splitlines() if each.startswith("factor ")]
    return int(line.split()[1])


def test_no_factor_where_the_order_does_not_put_interactive_jobs_first(tmp_path: Path) -> None:
    defaults = ClassDefaults(table=LuaTable(path=tmp_path / "t"))
    none = System()
    first = plan_of([5, 9], [True, False], [1.0, 0.0])
    only_batch = plan_of([7, 9], [False, False], [1.0, 0.0])
    last = plan_of([5, 9], [True, False], [0.0, 1.0])
    found = []
    for plan in (only_batch, first, only_batch, last, only_batch):
        defaults.follow(plan, FACTS, np.inf, none)  # type: ignore[arg-type]
        found.append(factor_in(tmp_path / "t") > 0)
    # what cannot be seen now is as it was seen last
    assert found == [False, True, True, False, False]
    kept = replace(only_batch, limit=LimitReport(amounts={"cpus": 4}))
    defaults.follow(kept, FACTS, np.inf, none)  # type: ignore[arg-type]
    assert factor_in(tmp_path / "t") > 0
    defaults.follow(replace(first, fallback_reason="late"), FACTS, np.inf, none)  # type: ignore[arg-type]
    assert factor_in(tmp_path / "t") == 0
    defaults.follow(first, FACTS, 3.0, none)  # type: ignore[arg-type]
    assert factor_in(tmp_path / "t") == 3  # no more than the admin allows any job


def test_taken_back_only_when_every_waiting_job_was_looked_at(tmp_path: Path) -> None:
    table = tmp_path / "defaults"
    defaults = ClassDefaults(table=LuaTable(path=table))
    assert not defaults.stands
    defaults.follow(plan_of([5, 9], [True, False], [1.0, 0.0]), FACTS, np.inf, System())  # type: ignore[arg-type]
    assert defaults.stands
    later = ApplyReport(applied=1, rejected={7: "held"}, later=frozenset({7}))
    done = ApplyReport(applied=2, rejected={})
    system = System(later, done)
    known = ApplyReport(applied=3, rejected={})
    report = defaults.take_back(system, known)  # type: ignore[arg-type]
    assert (report.applied, report.later) == (4, frozenset({7}))
    assert table.read_text() == "slurm-rl-class-defaults 0\n"  # no script heeds it
    assert defaults.stands
    assert defaults.take_back(system).applied == 2  # type: ignore[arg-type]
    assert not defaults.stands
    assert table.read_text() == ""
    assert defaults.take_back(system, known) == known  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"releases": True}, {"lever": "Nice"}])
def test_nothing_is_given_where_we_give_no_order(tmp_path: Path, change: dict[str, object]) -> None:
    table = tmp_path / "defaults"
    defaults = ClassDefaults(table=LuaTable(path=table))
    plan = plan_of([5, 9], [True, False], [1.0, 0.0])
    defaults.follow(plan, FACTS, np.inf, System())  # type: ignore[arg-type]
    facts = replace(FACTS, **{k: v for k, v in change.items() if k == "lever"})  # type: ignore[arg-type]
    plan = replace(plan, **{k: v for k, v in change.items() if k == "releases"})  # type: ignore[arg-type]
    system = System(ApplyReport(applied=0, rejected={}))
    defaults.follow(plan, facts, np.inf, system)  # type: ignore[arg-type]
    assert table.read_text() == ""
    assert not system.reports


def test_a_folder_that_is_gone_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    defaults = ClassDefaults(table=LuaTable(path=tmp_path / "gone" / "defaults"))
    plan = plan_of([5, 9], [True, False], [1.0, 0.0])
    for _ in range(3):
        defaults.follow(plan, FACTS, np.inf, System())  # type: ignore[arg-type]
    assert caplog.text.count("class_defaults=unwritable") == 1


@pytest.mark.parametrize("faulty", [(os, "open"), (Path, "stat")])
def test_a_table_that_cannot_be_written_holds_up_no_release(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    faulty: tuple[object, str],
) -> None:
    table = tmp_path / "defaults"
    table.write_text("slurm-rl-class-defaults 1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(*faulty, refuse)
    monkeypatch.setattr(os, "open", refuse)
    defaults = ClassDefaults(table=LuaTable(path=table))
    assert defaults.stands
    system = System(ApplyReport(applied=2, rejected={}))
    assert defaults.take_back(system).applied == 2  # type: ignore[arg-type]
    assert caplog.text.count("Permission denied") == 2
    assert defaults.stands  # nobody knows whether it still gives factors
