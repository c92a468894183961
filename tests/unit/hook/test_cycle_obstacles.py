"""Cycles that must do nothing, and the limit on batch jobs that is always lifted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.cycle_report import Pace
from slurm_rl_plugin.hook.memory import carried_factors
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors, StateFile
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import (
    FACTS,
    CountedStop,
    CountingPolicy,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    daemon_of,
    memory_of,
    pending_jobs,
    site,
    state_jobs,
)

AWAY = replace(FACTS, in_charge=False)


def test_on_standby_nothing_is_read_written_or_taken_back(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    cycle.run()
    here.known = AWAY
    here.asked.clear()
    here.pending.factor[0] += 5  # as the daemon of the other controller writes
    factors = here.pending.factor.tolist()
    daemon, reports = daemon_of(cycle)
    assert daemon.run()
    assert [(each.mode, each.succeeded) for each in reports] == [("standby", True)]
    assert set(here.asked) == {"facts"}
    assert here.pending.factor.tolist() == factors


@pytest.mark.parametrize("how", ["stop", "shadow", "disabled", "failed cycle", "no answer"])
def test_a_standby_leaves_the_others_factors(tmp_path: Path, how: str) -> None:
    here, other = site(tmp_path)
    other.run()
    factors = here.pending.factor.tolist()
    here.known = AWAY
    cycle = cycle_over(
        here, other.policy, tmp_path, beside_controllers=True, shadow=how == "shadow"
    )
    daemon, _ = daemon_of(cycle, 2, disable_file=tmp_path / "DISABLE")
    if how == "disabled":
        (tmp_path / "DISABLE").touch()
    if how == "failed cycle":
        here.away = True
        daemon.run_once()
        here.away = False
    here.away = how == "no answer"
    if how == "stop":
        daemon.leave()
    assert daemon.run() == (how != "no answer")  # then it is not known whose they are
    assert here.pending.factor.tolist() == factors


def test_without_a_known_controller_nothing_is_done_and_a_stop_asks_again(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    cycle.run()
    factors = here.pending.factor.tolist()
    here.known = replace(FACTS, in_charge=None)
    daemon, reports = daemon_of(cycle)
    assert not daemon.run()
    assert reports[0].failure == "batch_system"
    assert here.pending.factor.tolist() == factors
    assert state_jobs(tmp_path) == here.pending.jobs.job_id[np.array(factors) != 0].tolist()
    daemon.sleep = lambda seconds: setattr(here, "known", FACTS)
    assert daemon.leave()
    assert here.pending.factor.tolist() == [0, 0, 0]


@dataclass
class HoldingQueue(QueueInMemory):
    """Cannot take factors back from some jobs for now."""

    kept: frozenset[int] = frozenset({2})

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        done = super().release(job_ids)
        return replace(done, rejected=dict.fromkeys(self.kept, "it is held"), later=self.kept)


def test_jobs_that_keep_their_factor_for_now_are_not_forgotten(tmp_path: Path) -> None:
    here = HoldingQueue(pending_jobs([3, 2, 1]))
    daemon, _ = daemon_of(cycle_over(here, ScorePolicy([1, 2, 3]), tmp_path))
    assert not daemon.run()
    assert state_jobs(tmp_path) == [2]
    here.kept = frozenset()
    assert daemon.leave()
    assert state_jobs(tmp_path) == []


def test_a_failed_look_waits_for_the_next_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, cycle = site(tmp_path)
    daemon, reports = daemon_of(cycle, 3, pace=Pace(longest=60.0, soonest=1.0))
    answers = [here.load()]

    def load() -> object:
        asked.append("load")
        if answers:
            return answers.pop()
        raise BatchSystemUnavailable("no answer")

    asked: list[str] = []
    monkeypatch.setattr(here, "load", load)
    daemon.run()
    assert len(reports) == 1
    assert len(asked) == 2  # the cycle's own, and one between cycles


def test_calls_that_waited_for_a_takeover_are_no_reason_to_pause(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    here.known = AWAY
    clock, facts = [0.0], here.facts

    def slow_facts() -> object:
        clock[0] += 70.0 if here.known is FACTS else 0.0
        return facts()

    def between(number: int) -> None:
        clock[0] += stop.pauses[-1]
        if clock[0] == 10.0:
            here.known = FACTS
            cycle.calls.append(("scontrol", 7.0))

    here.facts = slow_facts  # type: ignore[assignment,method-assign]
    stop = CountedStop(3, between)
    pace = Pace(longest=10.0, soonest=1.0)
    daemon, reports = daemon_of(cycle, stop, pace=pace, monotonic=lambda: clock[0])
    daemon.run()
    assert [each.mode for each in reports] == ["standby", "active"]
    assert stop.pauses[-1] == 1.0  # for ten times 7 s, or for 70 s, it would be a slice
    assert reports[1].calls == (("scontrol", 7.0),)  # the metrics have them


def test_what_the_other_daemon_wrote_is_known_after_a_takeover(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    here.known = AWAY
    daemon, reports = daemon_of(cycle)
    assert not cycle.has_outstanding
    daemon.run_once()
    cycle_over(here, cycle.policy, tmp_path).run()  # the other one, with the same state file
    assert cycle.has_outstanding
    here.known = FACTS
    assert daemon.run()
    assert [(each.mode, each.disturbances) for each in reports] == [("standby", {}), ("active", {})]
    assert here.pending.factor.tolist() == [0, 0, 0]
    assert state_jobs(tmp_path) == []


def test_a_standby_leaves_the_others_memory_and_reads_it_at_a_takeover(tmp_path: Path) -> None:
    memory_file, service = memory_of(tmp_path), tmp_path / "state.json.service"
    here, cycle = site(tmp_path, policy=CountingPolicy([1, 2, 3]), beside_controllers=True)
    for here.known in (FACTS, FACTS, AWAY):
        cycle.run()
    memory_file.write(np.array([40.0]))  # the other's
    service.write_text('{"version": 1, "days": {}, "site_waits": {"serial": 99.0}}')
    cycle.remember()
    assert memory_file.read() == [40]
    here.known = FACTS
    cycle.run()
    assert memory_file.read() == [41]
    cycle.remember()
    assert json.loads(service.read_text())["site_waits"] == {"serial": 99.0}


def test_a_release_that_is_cut_short_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_factors, "RELEASED_AT_ONCE", 2)
    here, _ = site(tmp_path)
    state = StateFile(tmp_path / "state.json")
    state.write({1, 2, 3})
    asked: list[list[int]] = []

    def release(job_ids: IntArray) -> ApplyReport:
        asked.append(job_ids.tolist())
        if len(asked) == 2:
            raise BatchSystemUnavailable("away")
        return ApplyReport(accepted=frozenset(job_ids.tolist()))

    monkeypatch.setattr(here, "release", release)
    with pytest.raises(BatchSystemUnavailable):
        CarriedFactors(state).restore(here)
    assert state.read() == {3}
    assert CarriedFactors(state).restore(here).applied == 1
    assert asked == [[1, 2], [3], [3]]
    assert state.read() == set()
