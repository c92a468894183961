"""A write that got no answer may be done after the one that takes it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.memory.carried_factors import SETTLED, CarriedFactors, StateFile
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import pending_jobs, snapshot_of


@dataclass
class SleepySlurm:
    """Does a write that nobody waits for any more a second after it woke up."""

    factors: dict[int, int] = field(default_factory=lambda: {1: 5, 2: 0})
    late: dict[int, int] = field(default_factory=lambda: {2: 700})
    answers: bool = True
    slept: list[float] = field(default_factory=list)

    def release(self, jobs: IntArray | None) -> ApplyReport:
        if not self.answers:
            raise BatchSystemUnavailable("no answer")
        wanted = list(self.factors) if jobs is None else jobs.tolist()
        self.factors.update(dict.fromkeys(wanted, 0))
        return ApplyReport(accepted=frozenset(wanted))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.factors.update(self.late)
        self.late = {}


def write(factors: CarriedFactors, slurm: SleepySlurm) -> None:
    changes = [FactorChange(job_id=job, old=0, new=700) for job in (1, 2)]
    snapshot = snapshot_of(pending_jobs([1, 1]))
    factors.write(snapshot, changes, lambda: slurm.release(np.array([], dtype=np.int64)))


def carried(tmp_path: Path, slurm: SleepySlurm) -> CarriedFactors:
    """A write of two jobs has got no answer."""
    state = StateFile(tmp_path / "state.json", way_out={})
    factors = CarriedFactors(state, sleep=slurm.sleep)
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        write(factors, slurm)
    slurm.answers = True
    return factors


def test_who_got_no_answer_looks_again(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    factors.restore(cast(BatchSystem, slurm))
    assert (slurm.factors, slurm.slept) == ({1: 0, 2: 0}, [SETTLED])
    assert not factors.is_outstanding()
    assert not factors.state.is_unanswered()


def test_so_does_a_release_after_a_kill(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    carried(tmp_path, slurm)
    rescue = CarriedFactors(StateFile(tmp_path / "state.json"), sleep=slurm.sleep)
    rescue.restore(cast(BatchSystem, slurm))
    assert slurm.factors == {1: 0, 2: 0}


def test_an_answer_since_makes_it_needless(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    write(factors, slurm)
    factors.restore(cast(BatchSystem, slurm))
    assert slurm.slept == []


def test_nothing_is_forgotten_before_the_second_look(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        factors.restore(cast(BatchSystem, slurm))
    assert factors.is_outstanding()
    slurm.answers = True
    factors.restore(cast(BatchSystem, slurm))
    assert slurm.factors == {1: 0, 2: 0}


def test_an_unanswered_write_of_no_known_job_is_outstanding(tmp_path: Path) -> None:
    StateFile(tmp_path / "state.json", way_out={}).write(set(), unanswered=True)
    factors = CarriedFactors(StateFile(tmp_path / "state.json"))
    assert factors.is_outstanding()
    assert factors.words == "a write of factors got no answer and may still take effect"
