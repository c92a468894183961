"""Whose turn it is in an experiment, and that a block of the site's order carries no factor."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import NoReturn

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport, Pace
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
from tests.unit.hook.queues import (
    CountedStop,
    CountingPolicy,
    QueueInMemory,
    cycle_over,
    daemon_of,
    memory_of,
    site,
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
    model_sha256="abc",
    seed=1,
    day=DAY,
    blocks=BLOCKS,
)
CHALLENGE = replace(
    DECLARED,
    policy="new",
    candidate="/m/new.onnx",
    champion="scores",
    champion_sha256="abc",
)


def declare(files: ExperimentFiles, declared: Declaration = DECLARED, looked: float = 0.0) -> None:
    files.declare(declared, ExperimentStanding(state=RUNNING, reason="", at=0.0))
    files.looked(looked)


def stand(files: ExperimentFiles, state: str = RUNNING, looked: float = 0.0) -> None:
    files.stand(ExperimentStanding(state=state, reason="it is harm.", at=0.0))
    files.looked(looked)


def turn_at(files: ExperimentFiles, now: float, policy: str = "scores") -> Turn:
    return ExperimentTurns(files=files).turn(now, policy, "abc")


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(state_file=tmp_path / "state.json")


@dataclass
class Trial:
    """A daemon in turns; `now` is the clock of the day."""

    daemon: Daemon
    queue: QueueInMemory
    files: ExperimentFiles
    now: float = 0.0

    def __post_init__(self) -> None:
        self.daemon.clock = lambda: self.now

    def at(self, now: float) -> CycleReport:
        """A cycle at this time, while the experiment is watched."""
        self.now = now
        stand(self.files, looked=now)
        return self.daemon.run_once()

    @property
    def carries(self) -> bool:
        return any(self.queue.pending.factor.tolist())


@pytest.fixture
def trial(tmp_path: Path, files: ExperimentFiles) -> Trial:
    """The site's order takes turns with ours."""
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle, Event(), turns=ExperimentTurns(files=files))
    declare(files)
    return Trial(daemon, queue, files)


def test_factors_stand_in_blocks_of_ours_alone(trial: Trial) -> None:
    seen = []
    for now in (500.0, 1500.0, 5500.0, 9500.0, 13500.0, 17_500.0):
        report = trial.at(now)
        seen.append((report.experiment.phase, trial.carries))
    assert seen == [
        ("left_to_site", False),  # it has not begun
        ("ours", True),
        ("site", False),
        ("site", False),
        ("ours", True),
        ("left_to_site", False),  # it is over, and a person has to say how to go on
    ]


def test_a_long_pause_ends_with_the_turn(trial: Trial) -> None:
    trial.now = 4980.0
    stand(trial.files, looked=4980.0)
    reports: list[CycleReport] = []
    daemon = trial.daemon
    daemon.pace, daemon.publish = Pace(longest=300.0, soonest=300.0), reports.append
    daemon.stop = CountedStop(8, lambda number: setattr(trial, "now", trial.now + 5.0))
    daemon.run()
    assert [each.experiment.phase for each in reports] == ["ours", "site"]
    assert not trial.carries


def test_an_experiment_that_nobody_watches_is_left_to_the_site(files: ExperimentFiles) -> None:
    declare(files, looked=1000.0)
    assert not turn_at(files, 1900.0).left_to_site
    assert "it is not watched" in turn_at(files, 2100.0).why
    stand(files, looked=2000.0)
    assert not turn_at(files, 2900.0).left_to_site


@pytest.mark.parametrize(("declared", "to_site"), [(DECLARED, True), (CHALLENGE, False)])
def test_another_model_than_the_declared_one_has_no_turn(
    files: ExperimentFiles, declared: Declaration, to_site: bool
) -> None:
    declare(files, declared)
    turn = turn_at(files, 1500.0, "another")
    assert (turn.left_to_site, turn.candidate) == (to_site, "")
    assert "not the one declared" in turn.why


@pytest.mark.parametrize("what", ["declaration", "standing"])
@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"state": "odd"}', '{"blocks": []}', "[" * 100_000]
)
def test_unreadable_files_leave_the_queue_to_the_site(
    files: ExperimentFiles, what: str, content: str
) -> None:
    declare(files)
    path, turns = getattr(files, what), ExperimentTurns(files=files)
    good = path.read_text()
    path.write_text(content)
    turn = turns.turn(1500.0, "scores", "abc")
    assert turn.left_to_site
    assert "cannot be read" in turn.why
    path.write_text(good)
    assert not turns.turn(1500.0, "scores", "abc").left_to_site
    files.standing.unlink()
    assert turns.turn(1500.0, "scores", "abc").left_to_site


@pytest.mark.parametrize("what", ["declaration", "standing", "look", "findings"])
def test_no_odd_file_ends_the_daemon(what: str, trial: Trial) -> None:
    for content in ("[" * 100_000, '{"goals": [], "pairs": 1e999}', "\udcff", "1" * 5000):
        trial.at(1400.0)
        getattr(trial.files, what).write_bytes(content.encode("utf-8", "surrogateescape"))
        trial.now = 1500.0
        assert trial.daemon.run_once().failure is None


def broken(*_: object) -> NoReturn:
    raise ZeroDivisionError


def test_a_bug_leaves_the_queue_to_the_site(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    trial.at(1500.0)
    assert trial.carries
    monkeypatch.setattr(ExperimentTurns, "turn", broken)
    assert trial.daemon.run_once().experiment.phase == "left_to_site"
    assert not trial.carries
    monkeypatch.undo()
    trial.daemon.bring_in = broken
    assert trial.at(1600.0).mode == "shadow"
    assert not trial.carries


def last_in_force(files: ExperimentFiles) -> tuple[str, str]:
    return [(each.arm, each.mode) for each in files.journaled()][-1]


def test_a_turn_whose_factors_could_not_be_taken_back_was_not_in_force(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.at(1500.0)
    monkeypatch.setattr(Daemon, "_load", lambda _: None)
    trial.at(5500.0)
    assert last_in_force(trial.files) == (SITE, "failed")
    monkeypatch.undo()
    trial.at(5600.0)
    assert not trial.carries
    assert last_in_force(trial.files) == (SITE, "shadow")


def test_a_daemon_on_standby_writes_no_line(files: ExperimentFiles) -> None:
    declare(files)
    turns = ExperimentTurns(files=files)
    turns.note(turns.turn(1500.0, "scores", "abc"), "standby", 1500.0)
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
    assert (files.stands().state, files.stands().looked) == (STEPPED_BACK, 1500.0)


@pytest.mark.parametrize("content", ["", "{", "null", "1e999", '"x"', "[1]"])
def test_an_odd_time_of_the_last_look_is_none(files: ExperimentFiles, content: str) -> None:
    declare(files, looked=1500.0)
    files.look.write_text(content)
    assert files.stands().looked == 0.0


def journal_of(
    files: ExperimentFiles, declared: Declaration, end: int, mode: Callable[[int], str]
) -> list[InForce]:
    """Of cycles each 100 s since the beginning."""
    turns = ExperimentTurns(files=files)
    declare(files, declared)
    for now in range(1000, end, 100):
        stand(files, looked=float(now))
        turns.note(turns.turn(float(now), "scores", "abc"), mode(now), float(now))
    return list(files.journaled())


def test_the_journal_tells_how_long_ours_was_in_force(files: ExperimentFiles) -> None:
    journal = journal_of(files, DECLARED, 5000, lambda now: "active" if now < 3250 else "failed")
    assert len(journal) < 30  # not a line for each cycle
    # counted from 1500 on; active until the cycle of 3300 failed
    assert held_part(DECLARED, journal, 1) == pytest.approx((3300 - 1500) / (5000 - 1500))
    assert held_part(DECLARED, journal, 0) == 1.0
    assert held_part(DECLARED, journal, 2) == 0.0  # nothing is known of the site's block
    assert held_part(DECLARED, journal, 1, last=0) == 1.0
    only = [InForce(time=1000.0, arm=OURS, mode="active")]  # then the daemon says nothing
    assert held_part(DECLARED, only, 1) == held_part(DECLARED, [], 1) == 0.0


def test_models_are_in_force_where_each_acted_in_its_own_turn(files: ExperimentFiles) -> None:
    journal = journal_of(files, CHALLENGE, 9000, lambda now: ("active", "fallback")[now > 7000])
    assert held_part(CHALLENGE, journal, 1) == 1.0
    assert held_part(CHALLENGE, journal, 2) == pytest.approx((7100 - 5500) / (9000 - 5500))


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
    turns.turn(1000.0, "scores", "abc")
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
    turns.turn(1000.0, "scores", "abc")
    for now in (90_000.0, *range(1000, 5000, 100)):  # ahead by a day at first
        turns.note(turn, "active", float(now))
    assert held_part(DECLARED, list(files.journaled()), 1) == 1.0


@pytest.fixture
def challenge(trial: Trial) -> Trial:
    """The model in service ranks job 3 first, the candidate job 1."""
    configured = trial.daemon.cycle.policy = CountingPolicy([1, 2, 3])
    declare(trial.files, CHALLENGE)

    def bring_in(cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        if candidate != cycle.candidate:
            policy = CountingPolicy([3, 2, 1], name="new") if candidate else configured
            cycle.change_policy(policy, "abc", candidate=candidate, past_days=0.0)
        return True

    trial.daemon.bring_in = bring_in
    return trial


def test_models_take_turns_and_each_goes_on_from_its_own_memory(
    challenge: Trial, tmp_path: Path
) -> None:
    cycle, seen = challenge.daemon.cycle, []
    for now in (500.0, 1500.0, 1600.0, 5500.0, 9500.0, 13500.0, 17_500.0):
        report = challenge.at(now)
        assert cycle.configured[0] == "scores"
        factors, phase = challenge.queue.pending.factor, report.experiment.phase
        assert (report.policy, bool(factors[0] > factors[2])) == (
            ("new", True) if cycle.candidate else ("scores", False)
        )
        seen.append((phase, cycle.candidate, cycle._guard.memory))
    # one daemon orders all jobs; in doubt it is the model in service
    assert seen == [
        ("left_to_site", "", [1.0]),
        ("ours", "/m/new.onnx", [1.0]),
        ("ours", "/m/new.onnx", [2.0]),
        ("site", "", [2.0]),
        ("site", "", [3.0]),
        ("ours", "/m/new.onnx", [3.0]),
        ("left_to_site", "", [4.0]),
    ]
    cycle.remember()
    assert memory_of(tmp_path).read() == [4.0]
    assert memory_of(tmp_path, of_candidate=True).read() == [3.0]
    daemon, policy = challenge.daemon, CountingPolicy([1, 2, 3])
    fresh = cycle_over(challenge.queue, policy, tmp_path)
    daemon.reload = lambda: Reloaded(fresh, daemon.pace, None)
    daemon._reload()
    assert challenge.at(1600.0).policy == "new"
    assert daemon.cycle is fresh


def test_a_candidate_that_could_not_be_used_is_tried_again(challenge: Trial) -> None:
    daemon = challenge.daemon
    good, tries, seconds = daemon.bring_in, list[str](), [0.0]
    daemon.monotonic = lambda: seconds[0]

    def at_first_not(cycle: Cycle, candidate: str, model_sha256: str) -> bool:
        tries.extend([candidate] * bool(candidate))
        return (not candidate or len(tries) > 1) and good(cycle, candidate, model_sha256)

    daemon.bring_in = at_first_not
    for second, policy in ((0.0, "scores"), (59.0, "scores"), (61.0, "new")):
        seconds[0] = second
        report = challenge.at(1500.0 + second)
        assert report.policy == policy
        if policy == "scores":
            assert (report.experiment.phase, len(tries)) == ("left_to_site", 1)
            assert not daemon._turn_changed()  # no cycle is run for it again and again
    why = [each.why for each in challenge.files.journaled()]
    assert why == ["the candidate cannot be used", ""]


def test_what_went_to_the_wrong_account_is_journaled_where_shares_count(
    challenge: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ServiceSeen(delivered=np.array([3.0, 1.0]), entitled=np.array([2.0, 2.0]))
    lifts, run = [Lifts(), Lifts(accounts=np.zeros(2))], Cycle.run
    monkeypatch.setattr(
        Cycle, "run", lambda cycle: replace(run(cycle), service=service, lifts=lifts.pop(0))
    )
    for now in (1500.0, 5500.0):
        challenge.at(now)
    assert [each.misdelivered for each in challenge.files.journaled()] == [None, 1 / 4]


@pytest.mark.parametrize("unread", [False, True])
def test_a_stopped_or_unread_candidate_leaves_the_model_in_service(
    challenge: Trial, unread: bool
) -> None:
    assert challenge.at(1500.0).policy == "new"
    stand(challenge.files, STEPPED_BACK, looked=1600.0)
    if unread:
        challenge.files.standing.write_text("{")
    challenge.now = 1600.0
    report = challenge.daemon.run_once()
    assert (report.policy, report.mode) == ("scores", "active")
    assert report.experiment.phase == "left_to_site"
    assert unread or report.experiment.state == STEPPED_BACK
    assert challenge.carries


def test_a_challenger_needs_a_champion() -> None:
    with pytest.raises(ValueError, match="without a champion"):
        Declaration.of_json(replace(CHALLENGE, champion="").as_json())
    assert Declaration.of_json(CHALLENGE.as_json()) == CHALLENGE


def test_a_folder_that_is_not_writable_is_told_in_a_sentence(tmp_path: Path) -> None:
    nowhere = ExperimentFiles(state_file=tmp_path / "missing" / "state.json")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        declare(nowhere)
