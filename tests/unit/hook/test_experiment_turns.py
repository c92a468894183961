"""Whose turn it is in an experiment, and that a block of the site's order carries no factor."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle.settings import Pace
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.daemon import Daemon, Reloaded
from slurm_rl_plugin.hook.experiment.turns import (
    RUNNING,
    STEPPED_BACK,
    ExperimentFiles,
    ExperimentStanding,
    ExperimentTurns,
    InForce,
    Turn,
    held_part,
    misdelivered_since_begin,
)
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.memory.carried_factors import MemoryFile
from tests.unit.hook.queues import (
    CountedStop,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    daemon_of,
    pending_jobs,
)

DAY = 24_000.0  # an hour of 1000 s
BLOCKS = tuple(
    TurnBlock(begin=1000.0 + 4000.0 * place, end=5000.0 + 4000.0 * place, arm=arm, pair=place % 2)
    for place, arm in enumerate((OURS, SITE, SITE, OURS))
)
DECLARED = Declaration(
    goal="bounded_slowdown",
    harm=1.0,
    longest_wait=math.inf,
    policy="scores",
    model_sha256="",
    seed=1,
    day=DAY,
    blocks=BLOCKS,
)


class SetClock:
    """Reports what it was given."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def stand(files: ExperimentFiles, state: str = RUNNING, looked: float = 0.0) -> None:
    files.stand(ExperimentStanding(state=state, reason="it is harm.", at=0.0))
    files.looked(looked)


def turn_at(files: ExperimentFiles, now: float) -> Turn:
    return ExperimentTurns(files=files).turn(now, "scores", "")


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(state_file=tmp_path / "state.json")


def declare(files: ExperimentFiles, looked: float = 0.0) -> None:
    files.declare(DECLARED, ExperimentStanding(state=RUNNING, reason="", at=0.0))
    files.looked(looked)


def in_turns(tmp_path: Path, files: ExperimentFiles) -> tuple[Daemon, QueueInMemory, SetClock]:
    queue, clock = QueueInMemory(pending_jobs([3, 2, 1])), SetClock()
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    daemon, _ = daemon_of(cycle, Event())
    daemon.clock, daemon.turns = clock, ExperimentTurns(files=files)
    files.declare(
        replace(DECLARED, policy=cycle.policy.name, model_sha256=cycle.model_sha256),
        ExperimentStanding(state=RUNNING, reason="", at=0.0),
    )
    return daemon, queue, clock


def run_at(daemon: Daemon, clock: SetClock, now: float) -> CycleReport:
    clock.now = now
    stand(daemon.turns.files, looked=now)
    return daemon.run_once()


def test_factors_stand_in_blocks_of_ours_alone(tmp_path: Path, files: ExperimentFiles) -> None:
    daemon, queue, clock = in_turns(tmp_path, files)
    seen = []
    for now in (500.0, 1500.0, 5500.0, 9500.0, 13500.0, 17_500.0):
        report = run_at(daemon, clock, now)
        seen.append((report.experiment.phase, any(queue.pending.factor.tolist())))
    assert seen == [
        ("left_to_site", False),  # it has not begun
        ("ours", True),
        ("site", False),
        ("site", False),
        ("ours", True),
        ("left_to_site", False),  # it is over, and a person has to say how to go on
    ]


def test_a_long_pause_ends_with_the_turn(tmp_path: Path, files: ExperimentFiles) -> None:
    daemon, queue, clock = in_turns(tmp_path, files)
    clock.now = 4980.0
    stand(files, looked=4980.0)

    def go_on(number: int) -> None:
        del number
        clock.now += 5.0

    reports: list[CycleReport] = []
    daemon.pace, daemon.publish = Pace(longest=300.0, soonest=300.0), reports.append
    daemon.stop = CountedStop(8, go_on)
    daemon.run()
    assert [each.experiment.phase for each in reports] == ["ours", "site"]
    assert not any(queue.pending.factor.tolist())


def test_without_a_declaration_nothing_is_different(tmp_path: Path, files: ExperimentFiles) -> None:
    daemon, queue, clock = in_turns(tmp_path, files)
    files.put_away(7)
    report = run_at(daemon, clock, 5500.0)
    assert report.experiment.phase == "none"
    assert any(queue.pending.factor.tolist())
    assert sorted(path.name for path in tmp_path.glob("*.7"))


def test_an_experiment_that_nobody_watches_is_left_to_the_site(files: ExperimentFiles) -> None:
    declare(files, looked=1000.0)
    assert not turn_at(files, 1900.0).left_to_site
    assert "it is not watched" in turn_at(files, 2100.0).why
    stand(files, looked=2000.0)
    assert not turn_at(files, 2900.0).left_to_site


def test_another_model_than_the_declared_one_has_no_turn(files: ExperimentFiles) -> None:
    declare(files)
    turn = ExperimentTurns(files=files).turn(1500.0, "scores", "another")
    assert turn.left_to_site
    assert "not the one declared" in turn.why


@pytest.mark.parametrize("what", ["declaration", "standing"])
@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"state": "odd"}', '{"blocks": []}', "[" * 100_000]
)
def test_files_that_cannot_be_read_leave_the_queue_to_the_site(
    files: ExperimentFiles, what: str, content: str
) -> None:
    declare(files)
    getattr(files, what).write_text(content)
    turn = turn_at(files, 1500.0)
    assert turn.left_to_site
    assert "cannot be read" in turn.why


def test_what_was_broken_and_is_mended_counts_again(files: ExperimentFiles) -> None:
    declare(files)
    good = files.declaration.read_text()
    turns = ExperimentTurns(files=files)
    files.declaration.write_text("{")
    assert turns.turn(1500.0, "scores", "").left_to_site
    files.declaration.write_text(good)
    assert not turns.turn(1500.0, "scores", "").left_to_site


def test_a_standing_that_is_missing_leaves_the_queue_to_the_site(files: ExperimentFiles) -> None:
    declare(files)
    files.standing.unlink()
    assert turn_at(files, 1500.0).left_to_site


@pytest.mark.parametrize("what", ["declaration", "standing", "look", "findings"])
def test_no_odd_file_ends_the_daemon(what: str, tmp_path: Path, files: ExperimentFiles) -> None:
    daemon, _, clock = in_turns(tmp_path, files)
    for content in ("[" * 100_000, '{"goals": [], "pairs": 1e999}', "\udcff", "1" * 5000):
        run_at(daemon, clock, 1400.0)
        getattr(files, what).write_bytes(content.encode("utf-8", "surrogateescape"))
        clock.now = 1500.0
        assert daemon.run_once().failure is None


def test_a_bug_of_ours_leaves_the_queue_to_the_site(
    tmp_path: Path, files: ExperimentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, queue, clock = in_turns(tmp_path, files)
    run_at(daemon, clock, 1500.0)
    assert any(queue.pending.factor.tolist())

    def broken(*_: object) -> Turn:
        raise ZeroDivisionError

    monkeypatch.setattr(ExperimentTurns, "turn", broken)
    assert daemon.run_once().experiment.phase == "left_to_site"
    assert not any(queue.pending.factor.tolist())


def test_a_turn_whose_factors_could_not_be_taken_back_was_not_in_force(
    tmp_path: Path, files: ExperimentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, queue, clock = in_turns(tmp_path, files)
    run_at(daemon, clock, 1500.0)
    monkeypatch.setattr(Daemon, "_may_release", lambda _: False)
    run_at(daemon, clock, 5500.0)
    assert [(each.arm, each.mode) for each in files.journaled()][-1] == (SITE, "failed")
    monkeypatch.undo()
    run_at(daemon, clock, 5600.0)
    assert not any(queue.pending.factor.tolist())
    assert [(each.arm, each.mode) for each in files.journaled()][-1] == (SITE, "shadow")


def test_a_daemon_on_standby_writes_no_line(files: ExperimentFiles) -> None:
    declare(files)
    turns = ExperimentTurns(files=files)
    turns.note(turns.turn(1500.0, "scores", ""), "standby", 1500.0)
    assert list(files.journaled()) == []


def test_a_pipe_in_the_journals_place_is_not_waited_for(files: ExperimentFiles) -> None:
    os.mkfifo(files.journal)
    files.note(InForce(time=1.0, arm=OURS, mode="active"))
    files.journal.unlink()
    files.journal.write_text('{"time": "x", "arm": "ours", "mode": "active"}\n[1]\n')
    assert list(files.journaled()) == []


def test_who_looks_undoes_no_stop(files: ExperimentFiles) -> None:
    declare(files)
    stand(files, STEPPED_BACK)
    files.looked(1500.0)
    assert files.stands().state == STEPPED_BACK
    assert files.stands().looked == 1500.0


@pytest.mark.parametrize("content", ["", "{", "null", "1e999", '"x"', "[1]"])
def test_an_odd_time_of_the_last_look_is_none(files: ExperimentFiles, content: str) -> None:
    declare(files, looked=1500.0)
    files.look.write_text(content)
    assert files.stands().looked == 0.0


def test_the_journal_tells_how_long_ours_was_in_force(files: ExperimentFiles) -> None:
    turns = ExperimentTurns(files=files)
    declare(files)
    for now in range(1000, 5000, 100):
        stand(files, looked=float(now))
        turn = turns.turn(float(now), "scores", "")
        turns.note(turn, "active" if now < 3250 else "failed", float(now))
    journal = list(files.journaled())
    assert len(journal) < 30  # not a line for each cycle
    # counted from 1500 on; active until the cycle of 3300 failed
    assert held_part(DECLARED, journal, 1) == pytest.approx((3300 - 1500) / (5000 - 1500))
    assert held_part(DECLARED, journal, 0) == 1.0
    assert held_part(DECLARED, journal, 2) == 0.0  # nothing is known of the site's block
    assert held_part(DECLARED, journal, 1, last=0) == 1.0


@pytest.mark.parametrize(
    ("told", "misdelivered"),
    [
        ([], 0.0),
        ([None, None], 0.0),
        ([None, 0.1, 0.3, 0.2, None], 0.2),
        ([0.3, 0.2], 0.0),  # it was worse before
    ],
)
def test_the_journal_tells_how_much_went_to_the_wrong_account(
    files: ExperimentFiles, told: list[float | None], misdelivered: float
) -> None:
    turns, turn = ExperimentTurns(files=files), Turn(OURS)
    declare(files)
    turns.turn(1000.0, "scores", "")
    for place, each in enumerate(told):  # a line each: days lie between
        turns.note(turn, "active", 1000.0 + place * 90_000.0, each)
    assert misdelivered_since_begin(list(files.journaled())) == misdelivered


@pytest.mark.parametrize(
    "odd",
    [
        '{"time": 2.0, "arm": "ours", "mode": "active", "misdelivered": "x"}\n',
        '{"time": 2.0, "ar',
    ],
)
def test_a_journal_is_read_past_an_odd_or_half_a_line(files: ExperimentFiles, odd: str) -> None:
    files.note(InForce(time=1.0, arm=OURS, mode="active", misdelivered=0.5))
    with files.journal.open("a") as file:
        file.write(odd)
    assert [(each.time, each.misdelivered) for each in files.journaled()] == [(1.0, 0.5)]
    files.note(InForce(time=3.0, arm=OURS, mode="active"))
    assert [each.time for each in files.journaled()] == [1.0, 3.0]


def test_a_clock_that_is_set_back_goes_on_being_journaled(files: ExperimentFiles) -> None:
    turns, turn = ExperimentTurns(files=files), Turn(OURS)
    declare(files)
    turns.turn(1000.0, "scores", "")
    for now in (90_000.0, *range(1000, 5000, 100)):  # ahead by a day at first
        turns.note(turn, "active", float(now))
    assert held_part(DECLARED, list(files.journaled()), 1) == 1.0


def test_a_daemon_that_says_nothing_holds_nothing() -> None:
    only = [InForce(time=1000.0, arm=OURS, mode="active")]
    assert held_part(DECLARED, only, 1) == 0.0
    assert held_part(DECLARED, [], 1) == 0.0


CHALLENGE = replace(
    DECLARED, policy="new", model_sha256="abc", candidate="/m/new.onnx", champion="scores"
)


class SeeingPolicy(ScorePolicy):
    """Remembers how many queues it has seen."""

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        seen = 0.0 if memory is None else float(memory[0])
        return replace(super().decide(snapshot, None), memory=np.array([seen + 1.0]))


def challenged(
    tmp_path: Path, files: ExperimentFiles, *, is_there: bool = True
) -> tuple[Daemon, QueueInMemory, SetClock]:
    """The model in service ranks job 3 first, the candidate job 1."""
    daemon, queue, clock = in_turns(tmp_path, files)
    configured = daemon.cycle.policy = SeeingPolicy([1, 2, 3])
    files.declare(
        replace(CHALLENGE, champion_sha256=daemon.cycle.model_sha256),
        ExperimentStanding(state=RUNNING, reason="", at=0.0),
    )

    def bring_in(cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        if candidate == cycle.candidate:
            return True
        if candidate and not is_there:
            return False
        policy = SeeingPolicy([3, 2, 1], name="new") if candidate else configured
        sha256 = model_sha256 or cycle.configured[1]
        cycle.change_policy(policy, sha256, candidate=candidate, past_days=0.0)
        return True

    daemon.bring_in = bring_in
    return daemon, queue, clock


def test_each_model_goes_on_from_its_own_memory(tmp_path: Path, files: ExperimentFiles) -> None:
    daemon, _, clock = challenged(tmp_path, files)
    cycle, seen = daemon.cycle, []
    for now in (1500.0, 1600.0, 5500.0, 5600.0, 5700.0, 13500.0):
        run_at(daemon, clock, now)
        assert cycle.configured[0] == "scores"
        seen.append((cycle.candidate, cycle._guard.memory))
    assert seen == [
        ("/m/new.onnx", [1.0]),
        ("/m/new.onnx", [2.0]),
        ("", [1.0]),
        ("", [2.0]),
        ("", [3.0]),
        ("/m/new.onnx", [3.0]),
    ]
    stand(files, STEPPED_BACK, looked=13600.0)
    clock.now = 13600.0
    daemon.run_once()
    assert (cycle.candidate, cycle._guard.memory) == ("", [4.0])
    cycle.remember()
    kept = MemoryFile(path=tmp_path / "state.json.memory", model_sha256=cycle.model_sha256)
    assert kept.read() == [4.0]
    other = MemoryFile(path=tmp_path / "state.json.memory.candidate", model_sha256="abc")
    assert other.read() == [3.0]


def test_a_candidate_that_could_not_be_used_is_tried_again(
    tmp_path: Path, files: ExperimentFiles
) -> None:
    daemon, _, clock = challenged(tmp_path, files)
    good, tries, seconds = daemon.bring_in, list[str](), [0.0]
    daemon.monotonic = lambda: seconds[0]

    def at_first_not(cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        tries.extend([candidate] * bool(candidate))
        return (not candidate or len(tries) > 1) and good(cycle, candidate, model_sha256)

    daemon.bring_in = at_first_not
    assert run_at(daemon, clock, 1500.0).policy == "scores"
    seconds[0] = 59.0
    assert run_at(daemon, clock, 1510.0).policy == "scores"
    assert len(tries) == 1
    seconds[0] = 61.0
    assert run_at(daemon, clock, 1561.0).policy == "new"


def test_a_bug_in_bringing_a_model_in_leaves_the_queue_to_the_site(
    tmp_path: Path, files: ExperimentFiles
) -> None:
    daemon, queue, clock = challenged(tmp_path, files)

    def broken(cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        raise ZeroDivisionError(cycle, candidate, model_sha256)

    daemon.bring_in = broken
    assert run_at(daemon, clock, 1500.0).mode == "shadow"
    assert not any(queue.pending.factor.tolist())


def test_a_candidate_has_its_turns_and_the_model_in_service_the_others(
    tmp_path: Path, files: ExperimentFiles
) -> None:
    daemon, queue, clock = challenged(tmp_path, files)
    seen = []
    for now in (500.0, 1500.0, 1600.0, 5500.0, 9500.0, 13500.0, 17_500.0):
        report = run_at(daemon, clock, now)
        factors = queue.pending.factor
        seen.append((report.experiment.phase, report.policy, bool(factors[0] > factors[2])))
    # one daemon orders all jobs; in doubt it is the model in service
    assert seen == [
        ("left_to_site", "scores", False),
        ("ours", "new", True),
        ("ours", "new", True),
        ("site", "scores", False),
        ("site", "scores", False),
        ("ours", "new", True),
        ("left_to_site", "scores", False),
    ]


def test_what_went_to_the_wrong_account_is_journaled_where_shares_count(
    tmp_path: Path, files: ExperimentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, _, clock = challenged(tmp_path, files)
    service = ServiceSeen(delivered=np.array([3.0, 1.0]), entitled=np.array([2.0, 2.0]))
    lifts, run = [Lifts(), Lifts(accounts=np.zeros(2))], Cycle.run
    monkeypatch.setattr(
        Cycle, "run", lambda cycle: replace(run(cycle), service=service, lifts=lifts.pop(0))
    )
    run_at(daemon, clock, 1500.0)
    run_at(daemon, clock, 5500.0)
    assert [each.misdelivered for each in files.journaled()] == [None, 1 / 4]


@pytest.mark.parametrize("unread", [False, True])
def test_a_candidate_that_stepped_back_or_is_unread_leaves_the_model_in_service(
    tmp_path: Path, files: ExperimentFiles, unread: bool
) -> None:
    daemon, queue, clock = challenged(tmp_path, files)
    assert run_at(daemon, clock, 1500.0).policy == "new"
    stand(files, STEPPED_BACK, looked=1600.0)
    if unread:
        files.standing.write_text("{")
    clock.now = 1600.0
    report = daemon.run_once()
    assert (report.policy, report.mode) == ("scores", "active")
    assert report.experiment.phase == "left_to_site"
    assert unread or report.experiment.state == STEPPED_BACK
    assert any(queue.pending.factor.tolist())


def test_a_candidate_that_cannot_be_used_has_no_turn(
    tmp_path: Path, files: ExperimentFiles
) -> None:
    daemon, _, clock = challenged(tmp_path, files, is_there=False)
    for now in (1500.0, 1600.0):
        report = run_at(daemon, clock, now)
        assert (report.policy, report.experiment.phase) == ("scores", "left_to_site")
    assert not daemon._turn_changed()  # no cycle is run for it again and again
    journal = list(files.journaled())
    assert journal[-1].why == "the candidate cannot be used"
    assert held_part(CHALLENGE, journal, 1) == 0.0


def test_after_a_reload_the_candidate_comes_again_in_its_turn(
    tmp_path: Path, files: ExperimentFiles
) -> None:
    daemon, queue, clock = challenged(tmp_path, files)
    assert run_at(daemon, clock, 1500.0).policy == "new"
    fresh = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    daemon.reload = lambda: Reloaded(fresh, daemon.pace, None)
    daemon._reload()
    assert daemon.cycle is fresh
    assert run_at(daemon, clock, 1600.0).policy == "new"


def test_another_model_in_service_than_the_declared_one_ends_the_turns(
    files: ExperimentFiles,
) -> None:
    files.declare(CHALLENGE, ExperimentStanding(state=RUNNING, reason="", at=0.0))
    turn = ExperimentTurns(files=files).turn(1500.0, "another", "")
    assert (turn.left_to_site, turn.candidate) == (False, "")
    assert "not the one declared" in turn.why


def test_models_are_in_force_where_each_acted_in_its_own_turn(files: ExperimentFiles) -> None:
    turns = ExperimentTurns(files=files)
    files.declare(CHALLENGE, ExperimentStanding(state=RUNNING, reason="", at=0.0))
    for now in range(1000, 9000, 100):
        stand(files, looked=float(now))
        mode = "fallback" if now > 7000 else "active"
        turns.note(turns.turn(float(now), "scores", ""), mode, float(now))
    journal = list(files.journaled())
    assert held_part(CHALLENGE, journal, 1) == 1.0
    assert held_part(CHALLENGE, journal, 2) == pytest.approx((7100 - 5500) / (9000 - 5500))


def test_a_challenger_needs_a_champion() -> None:
    with pytest.raises(ValueError, match="without a champion"):
        Declaration.of_json(replace(CHALLENGE, champion="").as_json())
    assert Declaration.of_json(CHALLENGE.as_json()) == CHALLENGE


def test_a_folder_that_is_not_writable_is_told_in_a_sentence(tmp_path: Path) -> None:
    nowhere = ExperimentFiles(state_file=tmp_path / "missing" / "state.json")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        declare(nowhere)
