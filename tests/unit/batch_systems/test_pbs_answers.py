"""PBS: what waits, starts and ends, what jobs ask for, and what overrules a score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob, parse_job
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    formula_with,
    is_bounded,
    parse_nodes,
    parse_schedulers,
)
from slurm_rl_plugin.batch_systems.pbs.process import HIGHEST_SCORE, LOWEST_SCORE
from slurm_rl_plugin.batch_systems.pbs.queue import PbsWatch
from slurm_rl_plugin.cli.explain import room_sentences
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, GPUS, MEMORY
from slurm_rl_plugin.services.job_room import Requests, room_of
from tests.contracts.batch_system_contract import by_job, set_factor
from tests.fakes.fake_pbs_cluster import DEFAULT_SCORE, NOW, FakePbs


@pytest.fixture(params=["libpbs", "qstat"])
def fake(request: pytest.FixtureRequest, tmp_path: Path, library: Path) -> FakePbs:
    return FakePbs(tmp_path, library if request.param == "libpbs" else None)


def test_jobs_that_pbs_has_yet_to_route_cannot_start(fake: FakePbs) -> None:
    """In a routing queue a job gets no `etime` (svr_enquejob of 23.06)."""
    fake.set_queue("door", attributes={"queue_type": "Route"})
    fake.add("1.head", queue="door", etime=None)
    fake.add("2.head", queue="workq")
    fake.add("3.head", queue="workq", etime=None)
    snapshot = fake.adapter().snapshot()
    since = by_job(snapshot, "eligible")
    assert since == {1: math.inf, 2: NOW - 90.0, 3: NOW - 100.0}
    assert snapshot.waits_for_machine.tolist() == [number != 1 for number in since]
    assert snapshot.accrued_wait[list(since).index(1)] == 0.0


@pytest.mark.parametrize(
    ("state", "comment", "sentence"),
    [
        (
            "Q",
            "Not Running: Host set host=n1 has too few free resources",
            "too few nodes are free; wait, or ask for less",
        ),
        (
            "H",
            "old",
            "a hold is on the job, or it depends on a job; use `qrls`, or wait for that job",
        ),
        (
            "W",
            "",
            "the earliest start time of the job lies ahead; wait, or change it with `qalter -a`",
        ),
        ("Q", "Not Running: <b>\x1b[31m", "PBS says: Not Running: <b>?[31m"),
        ("Q", 30 * "words ", f"PBS says: {(30 * 'words ')[:160]}..."),
        ("Q", "", ""),
    ],
)
def test_a_snapshot_of_pbs_says_why_each_job_waits(
    fake: FakePbs, state: str, comment: str, sentence: str
) -> None:
    fake.add("1.head", job_state=state, comment=comment)
    fake.add("2.head")
    snapshot = fake.adapter().snapshot()
    assert snapshot.pending.reason is not None
    reasons = [snapshot.reasons[each] for each in snapshot.pending.reason.tolist()]
    said = dict(zip(snapshot.pending.jobs.job_id.tolist(), reasons, strict=True))
    assert said == {1: sentence, 2: ""}


@pytest.mark.parametrize("reservation", ["R17.head", "S3.head", None])
def test_a_job_in_a_reservation_waits_for_that(fake: FakePbs, reservation: str | None) -> None:
    """A site's own queue may be called like one of a reservation."""
    fake.add("1.head", queue="R17", reserve_ID=reservation, comment="Not Running: anything")
    fake.add("2.head", queue="R17", reserve_ID=reservation)
    snapshot = fake.adapter().snapshot()
    assert by_job(snapshot, "each_own_doing") == dict.fromkeys((1, 2), reservation is not None)
    assert by_job(snapshot, "each_for_processors") == {1: False, 2: reservation is None}


@pytest.mark.parametrize(("most", "own"), [(2, True), (1, True), (3, False), (None, False)])
def test_an_array_that_its_user_keeps_back_waits_for_that(
    fake: FakePbs, most: int | None, own: bool
) -> None:
    """PBS shows no other reason for an array that has begun (fifo.cpp of 23.06)."""
    count = "Queued:5 Running:2 Exiting:0 Expired:0 "
    fake.add("9[].head", job_state="B", array_state_count=count, max_run_subjobs=most)
    fake.change("9[].head", comment="Job Array Began at Sat Nov 21 at 00:13")
    for subjob in ("9[0].head", "9[1].head"):
        fake.add(subjob, job_state="R", stime=NOW - 5)
    pending = fake.adapter().snapshot().pending
    assert pending.each_own_doing.tolist() == [own]
    assert pending.each_for_processors.tolist() == [not own]


@pytest.mark.parametrize("named", [True, False])
def test_what_a_job_was_given_is_taken_back_though_another_of_its_number_came(
    fake: FakePbs, named: bool
) -> None:
    """Peer scheduling brings it; which of the two was ours is unknown and does not matter."""
    fake.add("2.head")
    system = fake.adapter()
    system.apply([set_factor(2, 50)])
    fake.add("2.other")
    system.snapshot()
    report = system.release(np.array([2]) if named else None)
    assert (report.applied, report.rejected) == (1, {})
    assert fake.score("2.head") == fake.score("2.other") == DEFAULT_SCORE
    assert system.apply([set_factor(2, 50)]).applied == 0


def test_hundreds_of_jobs_that_end_between_two_looks_take_no_longer_than_one(fake: FakePbs) -> None:
    """Asked for one by one they would take 28 s, in each look anew."""
    names = [f"{number}.head" for number in range(1, 401)]
    fake.add(names[0])
    job = fake.state["jobs"][names[0]]
    jobs = {name: {**job, "job_state": "R", "stime": NOW - 50} for name in names}
    fake.set(jobs=jobs)
    system = fake.adapter(timeout=5.0)
    system.facts()  # it keeps a history
    system.snapshot()
    fake.set(jobs={n: {**each, "job_state": "F", "obittime": NOW} for n, each in jobs.items()})
    fake.break_command("qstat", "busy")
    assert len(system.snapshot().ended) == 400


def job(state: str, **times: int) -> PbsJob:
    told = parse_job("7.server", {"job_state": state, "ctime": 100, "qtime": 100, **times})
    assert told is not None
    return told


def nobody(names: Sequence[str]) -> list[PbsJob]:
    del names
    return []


@pytest.mark.parametrize(
    ("looks", "starts"),
    [
        # PBS shows R for a job whose prologue runs, and no stime before it is over
        ((job("Q"), job("R"), job("R", stime=130), job("R", stime=130)), [[], [], [130.0], []]),
        (
            (job("Q"), job("R", stime=130), job("Q"), job("R", stime=190)),
            [[], [130.0], [], [190.0]],
        ),
    ],
    ids=["a prologue runs", "it waits again"],
)
def test_a_job_starts_when_it_has_a_start(
    looks: Sequence[PbsJob], starts: list[list[float]]
) -> None:
    watch = PbsWatch()
    assert [
        [each.start for each in watch.starts_and_ends([now], nobody)[0]] for now in looks
    ] == starts


def test_a_job_that_ended_after_its_prologue_is_asked_for() -> None:
    watch = PbsWatch()
    for now in (job("Q"), job("R")):
        watch.starts_and_ends([now], nobody)
    over = job("F", stime=130, obittime=140)
    started, ended = watch.starts_and_ends(
        [], lambda names: [over] if list(names) == ["7.server"] else []
    )
    assert (started, ended) == ([over], [over])


def test_the_last_start_of_an_array_is_known_while_a_subjob_of_it_waits() -> None:
    def of(name: str, **values: object) -> PbsJob:
        told = parse_job(name, {"ctime": 100, "qtime": 100, **values})
        assert told is not None
        return told

    watch = PbsWatch()
    rest = of("9[].server", job_state="B", array_state_count="Queued:5 Running:2 Exiting:0 ")
    assert rest.tasks == 5
    first = of("9[1].server", job_state="R", stime=130)
    second = of("9[2].server", job_state="R", stime=150)
    watch.starts_and_ends([rest, first, second], nobody)
    assert watch.last_start == {9: 150.0}
    watch.starts_and_ends([rest], nobody)
    assert watch.last_start == {9: 150.0}
    watch.starts_and_ends([first], nobody)
    assert watch.last_start == {}


NODES = {
    "g1": {
        "state": "free",
        "ncpus": 8,
        "assigned": 2,
        "available": {"mem": "64gb", "ngpus": 4},
        "taken": {"mem": "8388608kb", "ngpus": 1},
    },
    "g2": {"state": "down", "ncpus": 8, "assigned": 0, "available": {"mem": "64gb", "ngpus": 4}},
}


def test_requests_and_what_is_free(tmp_path: Path) -> None:
    fake = FakePbs(tmp_path)
    fake.set(nodes=NODES)
    fake.add("1.head", job_state="R", stime=NOW - 50)
    fake.request("1.head", select="1:ncpus=2:mem=8gb:ngpus=1", mem="8gb", ncpus=2, ngpus=1)
    fake.add("2.head")
    fake.request("2.head", select="2:ncpus=1:mem=4gb:ngpus=2", mem="8gb", ncpus=2, ngpus=4)
    fake.add("3.head")
    fake.request("3.head", select="1:ncpus=2", mem=None, place="excl")
    snapshot = fake.adapter().snapshot()
    requests, now = snapshot.pending.jobs.requests, snapshot.resources
    assert now.names == requests.names == BASIC_RESOURCES
    told = dict(zip(snapshot.pending.jobs.job_id.tolist(), requests.total.tolist(), strict=True))
    assert told == {2: [2.0, 8192.0, 4.0], 3: [2.0, 0.0, 0.0]}
    assert requests.exclusive.tolist() == [False, True]
    assert now.capacity.tolist() == [8.0, 65536.0, 4.0]
    assert now.free.tolist() == [6.0, 57344.0, 3.0]


def test_vnodes_of_a_queue_serve_it_alone() -> None:
    amounts = {"ncpus": 8, "mem": "64gb", "ngpus": 2}
    vnodes = {
        name: {"state": "free", "queue": queue, "resources_available": amounts}
        for name, queue in (("a", "gpu"), ("b", None))
    }
    nodes = parse_nodes({"nodes": vnodes})
    assert [node.free(MEMORY) for node in nodes] == [65536.0, 65536.0]
    asked = Requests({GPUS: 4.0}, 1)
    in_queue, elsewhere = (room_of(nodes, [name], asked, {}) for name in ("gpu", "workq"))
    four = "It waits for 4 GPUs; 2 are free on one node, none has 4 (2 on all nodes)."
    assert room_sentences(in_queue) == room_sentences(elsewhere) == [four]


def value_of(formula: str, **values: float) -> float:
    """As pbs_sched evaluates it."""
    return float(eval(formula, {**vars(math), **values}))


@given(
    score=st.integers(LOWEST_SCORE, HIGHEST_SCORE - 1),
    of_lower=st.floats(-1e200, 1e200),
    of_higher=st.floats(-1e200, 1e200),
)
def test_the_sites_terms_overrule_no_score(score: int, of_lower: float, of_higher: float) -> None:
    formula = formula_with("terms")
    lower = value_of(formula, rl_score=score, terms=of_lower)
    higher = value_of(formula, rl_score=score + 1, terms=of_higher)
    assert lower < higher


@pytest.mark.parametrize(
    ("formula", "bounded"),
    [
        ("rl_score", True),
        ("1000*rl_score", True),
        ("1000*rl_score + asinh(queue_priority + ncpus)", True),
        ("1000*rl_score + asinh(ncpus) + asinh(mem)", False),
        ("1000*rl_score + (queue_priority)", False),
        ("rl_score + asinh(ncpus)", False),
        ("1000*rl_score + asinh(ncpus)*mem", False),
        ("-1*rl_score", False),
        ("0*rl_score", False),
        ("rl_score +", False),
    ],
)
def test_check_warns_of_terms_that_are_not_bounded(
    tmp_path: Path, formula: str, bounded: bool
) -> None:
    assert is_bounded(formula) == bounded
    server = FakePbs(tmp_path)
    server.set_server(job_sort_formula=formula)
    (check,) = [each for each in server.adapter().own_checks() if each.name == "formula"]
    assert check.result == ("pass" if bounded else "warn")


OURS = "1000*rl_score"


@pytest.fixture
def server(tmp_path: Path) -> FakePbs:
    return FakePbs(tmp_path)


class Site:
    """An adapter with a clock and a list of the commands that it ran."""

    def __init__(self, server: FakePbs) -> None:
        self.now = float(NOW)
        self.calls: list[str] = []
        self.system = server.adapter(
            clock=lambda: self.now, on_call=lambda call: self.calls.append(call[0])
        )

    def harm(self) -> str | None:
        return self.system.facts().harm


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, None),
        ({"job_sort_formula": OURS}, "which the dead-man hook cannot remove"),
        ({"job_sort_formula": "queue_priority"}, "formula of its own that is not the server's"),
        ({"job_sort_formula_threshold": 0}, "unset sched second job_sort_formula_threshold"),
        ({"job_sort_formula_threshold": -7.5}, "never runs"),
        ({"job_sort_formula_threshold": 0, "job_sort_formula": OURS}, "never runs"),
    ],
)
def test_what_any_scheduler_says_is_told(
    server: FakePbs, attributes: dict[str, Any], words: str | None
) -> None:
    server.set(schedulers=["default", "second"], sched={"second": attributes})
    harm = Site(server).harm()
    assert harm is None if words is None else words in str(harm)


def test_a_queues_own_default_of_the_score_is_told(server: FakePbs) -> None:
    """What is cleared there would have it, in place of the server's."""
    server.set_queue("long", attributes={"resources_default": {"rl_score": 7}})
    harm = str(Site(server).harm())
    assert "qmgr -c 'unset queue long resources_default.rl_score'" in harm


def test_it_is_asked_once_a_minute_while_nothing_is_wrong(server: FakePbs) -> None:
    site = Site(server)
    assert [site.harm(), site.harm()] == [None, None]
    assert site.calls == ["qstat", "qstat", "qmgr", "qstat"]
    server.set(sched={"default": {"job_sort_formula_threshold": 5}})
    site.now += 61.0
    assert site.harm() is not None
    server.set(sched={})
    assert site.harm() is None  # what was wrong is asked for in each cycle
    site.calls.clear()
    server.set_server(job_sort_formula="rl_score")
    assert site.harm() is None
    assert site.calls == ["qstat", "qstat", "qmgr"]  # another formula has to be compared anew


def test_a_long_value_goes_on_in_the_next_line() -> None:
    told = (
        "Sched default\n    job_sort_formula = max(ncpus,\n\t\tnodect)*rl_score\n"
        "    state = idle\n\n"
        "Sched second\n    job_sort_formula_threshold = 1.5\n"
    )
    first, second = parse_schedulers(told)
    assert (first.name, first.formula) == ("default", "max(ncpus,nodect)*rl_score")
    assert (first.threshold, second.threshold, second.formula) == (None, 1.5, "")
