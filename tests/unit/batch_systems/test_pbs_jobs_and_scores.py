"""OpenPBS: odd answers, scores that must not be, and every call within its time-out."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.pbs import process
from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import parse_pbsfs
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    ATTRIBUTES,
    job_number,
    parse_job,
    parse_time,
)
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    parse_capacity,
    parse_nodes,
    parse_server,
)
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.process import (
    HIGHEST_SCORE,
    Ifl,
    JobAfterWrite,
    Qalter,
    ScoreWrite,
    section,
)
from slurm_rl_plugin.batch_systems.pbs.queue import PbsTables
from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from tests.architecture.markdown_documents import TOP
from tests.contracts.batch_system_contract import by_job, factors, set_factor
from tests.fakes.fake_pbs_cluster import DEFAULT_SCORE, NOW, FakePbs, fake_libpbs
from tests.fakes.pbs_month import FIRST_DAY, write_month

ASSETS = TOP / "tests" / "assets" / "pbs"
#: As recorded, less what is not read.
JOB: dict[str, Any] = json.loads((ASSETS / "job.json").read_text())
ODD_JOBS = tomllib.loads((ASSETS / "odd_values.toml").read_text())["job"]
SUBMITTED = 1_795_220_033.0


@pytest.fixture
def fake(tmp_path: Path, library: Path) -> FakePbs:
    return FakePbs(tmp_path, library, jobs=3)


def test_a_recorded_job() -> None:
    job = parse_job("5199.host", JOB)
    assert (job.submit, job.eligible, job.time_limit) == (SUBMITTED, SUBMITTED + 1, 5400.0)
    assert (job.processors, job.account, job.user, job.score) == (4, "g1", "u1", 4335.2002)
    assert (job.held, job.waits, job.runs) == (False, True, False)


@pytest.mark.parametrize("case", ODD_JOBS, ids=str)
def test_odd_values_are_taken(case: dict[str, Any]) -> None:
    gone, changes = case.pop("gone", ()), case.pop("changes", {})
    job = parse_job("5199.host", {**JOB, **changes, **dict.fromkeys(gone)})
    assert job is not None
    for name, value in case.items():
        np.testing.assert_equal(getattr(job, name), None if value == "none" else value)


@pytest.mark.parametrize("by_library", [True, False])
def test_a_users_priority_orders_his_jobs_as_nice_does(
    tmp_path: Path, library: Path, by_library: bool
) -> None:
    fake = FakePbs(tmp_path, library if by_library else None)
    for job, priority in ((1, -5), (2, 0), (3, 1023)):
        fake.add(f"{job}.head", Priority=priority)
    assert by_job(fake.adapter().snapshot(), "nice") == {1: 5, 2: 0, 3: -1023}


@pytest.mark.parametrize("changes", [{"ctime": None}, {"job_state": None}, {"ctime": "nan"}])
def test_what_is_no_job_is_passed_over(changes: dict[str, Any]) -> None:
    assert parse_job("5199.host", {**JOB, **changes}) is None
    assert parse_job("no job id", JOB) is None


def test_numbers_of_subjobs_are_their_own() -> None:
    names = ["7.h", "7[0].h", "7[1].h", "8.h", "999999999999[9].h"]
    assert len({job_number(name) for name in names}) == len(names)
    assert job_number("7[].h") == job_number("7.h") == 7
    assert parse_time("Sat Nov 21 00:13:53 2026") == SUBMITTED


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["Q", "B", "R", "nan", "1e39", "-1", "9" * 30, "Sat Nov 21 00:13:53 2026"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["rl_score", "ncpus", "walltime"]), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(
    name=st.sampled_from(["7.h", "7[].h", "7[3].h", "7[999999999].h", "9" * 18 + ".h"]) | st.text(),
    changes=st.dictionaries(st.sampled_from([*JOB, *ATTRIBUTES]), ODD, max_size=4),
)
def test_no_answer_crashes_and_every_job_fits_its_columns(
    name: str, changes: dict[str, Any]
) -> None:
    job = parse_job(name, {**JOB, **changes})
    if job is None:
        return
    build = PbsTables((), JobClassifier())
    pending = build.pending([job], DEFAULT_SCORE, NOW, {}, counts_eligible_time=True)
    assert pending.jobs.processors[0] >= 1
    assert pending.jobs.eligible[0] >= pending.jobs.submit[0]
    assert np.isfinite(pending.jobs.submit).all()


def test_what_is_private_to_users_is_dropped(fake: FakePbs) -> None:
    shown = fake.adapter().commands.read_json(["qstat", "-f", "-F", "json"])
    assert "SECRET" in json.dumps(shown)
    assert "SECRET" not in json.dumps(section(shown, "Jobs"))


def test_times_do_not_depend_on_the_zone_of_the_host(fake: FakePbs) -> None:
    jobs = fake.adapter().snapshot().pending.jobs
    assert jobs.submit.tolist() == [NOW - 100.0] * 3
    assert jobs.eligible.tolist() == [NOW - 90.0] * 3


def test_a_score_that_is_not_finite_is_seen_and_mended(fake: FakePbs) -> None:
    fake.set_score("2.head", "nan")
    system = fake.adapter()
    assert factors(system.snapshot()) == {1: 0, 2: -DEFAULT_SCORE, 3: 0}
    assert system.apply([set_factor(2, 50)]).rejected == {}
    assert fake.score("2.head") == DEFAULT_SCORE + 50
    fake.set_score("2.head", "inf")
    assert system.release().applied == 1
    assert fake.score("2.head") == DEFAULT_SCORE


class SentScores:
    """A sender that keeps what it is given and gives it back, as the server would."""

    def __init__(self) -> None:
        self.sent: list[ScoreWrite] = []

    def send(self, writes: Sequence[ScoreWrite]) -> dict[str, JobAfterWrite]:
        self.sent += writes
        return {write.job: JobAfterWrite("Q", write.value) for write in writes}


NUMBERS = st.integers() | st.integers(-HIGHEST_SCORE, 2 * HIGHEST_SCORE) | st.floats()


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.one_of(st.none(), st.floats()))
def test_only_whole_scores_that_single_precision_keeps_are_ever_sent(
    factors: list[Any], default: float | None
) -> None:
    """For any request of the hook and any default of the server."""
    system = Pbs(
        AdapterParts(shares=None, classifier=JobClassifier(), clock=lambda: 0.0, environment={})
    )
    sender = system._sender = SentScores()
    told = {"pbs_version": "23.06.06", "resources_default": {"rl_score": default}}
    system._server = parse_server({"Server": {"head": told}})
    system._queue.names = {job: f"{job}.head" for job in range(len(factors))}
    report = system.apply([set_factor(job, factor) for job, factor in enumerate(factors)])
    for write in sender.sent:
        assert write.value == "" or (
            write.value.isdecimal() and 1 <= int(write.value) <= HIGHEST_SCORE
        )
    assert report.applied == len(sender.sent)
    assert report.applied + len(report.rejected) == len(factors)
    assert all("is not a whole number" in words for words in report.rejected.values())


def test_every_whole_score_survives_single_precision(fake: FakePbs) -> None:
    factors = [HIGHEST_SCORE - DEFAULT_SCORE, HIGHEST_SCORE - DEFAULT_SCORE - 1, 1]
    report = fake.adapter().apply([set_factor(job, f) for job, f in enumerate(factors, start=1)])
    assert report.rejected == {}
    assert [fake.score(f"{job}.head") for job in (1, 2, 3)] == [
        factor + DEFAULT_SCORE for factor in factors
    ]


def test_cleared_jobs_have_the_servers_default(fake: FakePbs) -> None:
    system = fake.adapter()
    system.apply([set_factor(1, 500), set_factor(2, 600)])
    fake.set(defaults={"rl_score": 50})
    system.facts()
    assert system.release(np.array([1])).applied == 1
    assert (fake.score("1.head"), fake.score("2.head")) == (50, DEFAULT_SCORE + 600)


def test_a_site_without_default_can_be_ordered_too(fake: FakePbs) -> None:
    fake.set(defaults={})
    fake.add("4.head")
    system = fake.adapter()
    assert system.apply([set_factor(4, 7)]).rejected == {}
    assert fake.score("4.head") == 7
    assert system.release(np.array([4])).rejected == {}
    assert fake.score("4.head") is None


@pytest.mark.parametrize("sender", [Ifl, Qalter])
def test_a_job_that_has_started_or_is_gone_is_no_fault(
    tmp_path: Path, library: Path, sender: type
) -> None:
    fake = FakePbs(tmp_path, library if sender is Ifl else None, jobs=3)
    system = fake.adapter()
    system.snapshot()
    fake.run_job("1.head")
    fake.forget("2.head")
    report = system.apply([set_factor(job, 10) for job in (1, 2, 3)])
    assert (report.applied, set(report.rejected)) == (1, {1, 2})
    assert report.later == frozenset()


def test_a_library_from_before_20_reads_and_writes_too(tmp_path: Path) -> None:
    """It has no pbs_asyalterjob (18.1, 19.1), and its server knows fewer attributes (20.0 too)."""
    (tmp_path / "library").mkdir()
    library = fake_libpbs(tmp_path / "library", "-Dpbs_asyalterjob=pbs_nothing", "-DBEFORE_22")
    fake = FakePbs(tmp_path, library, jobs=3)
    system = fake.adapter()
    assert len(system.snapshot().pending) == 3
    fake.end_job("1.head")
    report = system.apply([set_factor(job, 10) for job in (1, 2, 3)])
    assert (report.applied, set(report.rejected), report.later) == (2, {1}, frozenset())
    assert fake.score("2.head") == fake.score("3.head") == DEFAULT_SCORE + 10
    assert system.release().applied == 2
    assert fake.score("2.head") == DEFAULT_SCORE


def test_what_qalter_has_no_time_for_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakePbs(tmp_path, jobs=3)
    system = fake.adapter()
    system.apply([set_factor(job, 10) for job in (1, 2, 3)])
    ticks = iter([0.0, 1.0, 1e9, 1e9])
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    report = system.release()
    assert (report.applied, report.later) == (1, frozenset({2, 3}))
    assert fake.score("1.head") == DEFAULT_SCORE


@pytest.mark.parametrize("mode", ["deny", "lose"])
@pytest.mark.parametrize("command", ["pbs_ifl", "qalter"])
def test_scores_that_do_not_arrive_are_noticed(
    tmp_path: Path, library: Path, command: str, mode: str
) -> None:
    fake = FakePbs(tmp_path, library if command == "pbs_ifl" else None, jobs=1)
    fake.break_command(command, mode)
    with pytest.raises(ChangeRejected, match="manager or operator"):
        fake.adapter().apply([set_factor(1, 10)])


@pytest.mark.parametrize("command", ["qstat", "pbsnodes", "pbs_ifl"])
@pytest.mark.parametrize(
    ("mode", "words"), [("hang", "no answer within"), ("down", "connect|reach")]
)
def test_without_an_answer_nothing_hangs(
    fake: FakePbs, command: str, mode: str, words: str
) -> None:
    system = fake.adapter(timeout=0.8)
    system.facts()
    system.load()  # what facts has just read serves it
    fake.break_command(command, mode)
    calls: dict[str, tuple[Callable[[], object], ...]] = {
        "qstat": (system.facts, system.load),
        "pbsnodes": (system.snapshot,),
        "pbs_ifl": (system.snapshot, lambda: system.apply([set_factor(1, 10)])),
    }
    for call in calls[command]:
        with pytest.raises(BatchSystemUnavailable, match=words):
            call()


def test_a_library_that_ends_its_child_is_not_a_server_without_answer(
    fake: FakePbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may be well: a cycle then takes our limit back, or a job starves behind it."""
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('libpbs.so: no such symbol')")
    monkeypatch.setattr(process, "PROGRAM", program)
    system = fake.adapter()
    for call in (system.snapshot, lambda: system.apply([set_factor(1, 10)])):
        with pytest.raises(BatchSystemError, match=r"libpbs failed: .* no such symbol") as caught:
            call()
        assert not isinstance(caught.value, BatchSystemUnavailable)


def test_a_broken_answer_is_one_sentence(fake: FakePbs) -> None:
    fake.break_command("qstat", "garbage")
    with pytest.raises(BatchSystemError, match="not understood") as caught:
        fake.adapter().facts()
    assert "\n" not in str(caught.value)


def test_no_permission_for_fairshare_gives_equal_shares(fake: FakePbs) -> None:
    fake.set(fairshare={})
    fake.change("1.head", Account_Name="biology")
    snapshot = fake.adapter().snapshot()
    assert dict(zip(snapshot.accounts, snapshot.shares.tolist(), strict=True)) == {
        "biology": 0.5,
        "physics": 0.5,
    }


def test_shares_and_usage_of_the_tree() -> None:
    tree = parse_pbsfs(
        "Fairshare usage units are in: cput\n"
        "TREEROOT  : Grp: -1     cgrp: 0    Shares: -1     Usage: 1000   Perc: 100.000%\n"
        "physics   : Grp: 0      cgrp: 10   Shares: 70     Usage: 750    Perc: 70.000%\n"
        "unknown   : Grp: 0      cgrp: 1    Shares: 10     Usage: 1      Perc: 10.000%\n"
    )
    assert {name: (node.share, node.usage) for name, node in tree.items()} == {
        "physics": (0.7, 750.0)
    }


def test_capacity_is_what_jobs_can_use() -> None:
    nodes = {
        "a": {"state": "free", "resources_available": {"ncpus": 8}},
        "b": {
            "state": "job-busy,offline",
            "resources_available": {"ncpus": 8},
            "resources_assigned": {"ncpus": 3},
        },
        "c": {"state": "state-unknown,down", "resources_available": {"ncpus": "8"}},
        "d": {"state": "free"},
    }
    assert parse_capacity({"nodes": nodes}) == 11
    # in the words of 23.06 (pbs_internal.h): pbs_sched starts jobs on `free` vnodes alone
    for state in ("Stale", "busy", "job-busy,busy", "initializing"):
        vnode = {"state": state, "resources_available": {"ncpus": 8, "mem": "8gb"}}
        assert parse_capacity({"nodes": {"a": vnode}}) == 0
        assert [each.serves for each in parse_nodes({"nodes": {"a": vnode}})] == [False]


@pytest.mark.parametrize(
    ("values", "harm"),
    [
        ({"job_sort_formula": "rl_score"}, None),
        ({"job_sort_formula": "1000*rl_score + (queue_priority)"}, None),
        ({"job_sort_formula": "my_rl_score_2"}, "does not contain rl_score"),
        ({}, "pbs-setup"),
    ],
)
def test_a_formula_that_does_nothing_is_told(values: dict[str, Any], harm: str | None) -> None:
    server = parse_server({"Server": {"head": {"pbs_version": "23.06.06", **values}}})
    assert (server.harm() is None) == (harm is None)
    assert harm is None or harm in str(server.harm())


@pytest.mark.parametrize("held", [False, True])
def test_running_subjobs_are_rows_of_their_own(fake: FakePbs, held: bool) -> None:
    """A hold makes an array H where it was B; its running subjobs continue."""
    count = "Queued:1 Running:2 Exiting:0 Expired:0 "
    state = {"job_state": "H", "Hold_Types": "u", "etime": None} if held else {"job_state": "B"}
    fake.add("9[].head", array_state_count=count, **state)
    fake.add("9[0].head", job_state="R", stime=NOW - 5)
    fake.add("9[1].head", job_state="R", stime=NOW - 5)
    fake.add("9[2].head")
    snapshot = fake.adapter().snapshot()
    assert by_job(snapshot, "held") == {1: False, 2: False, 3: False, 9: held}
    assert len(set(snapshot.running.jobs.job_id.tolist())) == len(snapshot.running) == 2


def test_jobs_of_several_servers_with_one_number_are_left_alone(
    fake: FakePbs, caplog: pytest.LogCaptureFixture
) -> None:
    """As peer scheduling moves them here; one would get the score of the other."""
    fake.add("2.other")
    system = fake.adapter()
    for _ in range(2):
        assert sorted(system.snapshot().pending.jobs.job_id.tolist()) == [1, 3]
    report = system.apply([set_factor(job, 10) for job in (1, 2, 3)])
    assert (report.applied, set(report.rejected)) == (2, {2})
    assert fake.score("2.head") == fake.score("2.other") == DEFAULT_SCORE
    told = [each for each in caplog.messages if "left_alone" in each]
    assert told == ["jobs=left_alone reason=one_number_of_several_jobs jobs='2.head 2.other'"]


@pytest.mark.parametrize(
    ("job", "suspended"), [("1.head", "S"), ("1.head", "U"), ("9[0].head", "S")]
)
def test_a_job_that_goes_on_after_it_was_suspended_has_not_started_again(
    fake: FakePbs, job: str, suspended: str
) -> None:
    fake.add("9[].head", job_state="B", array_state_count="Queued:1 Running:1 Exiting:0 Expired:0 ")
    fake.add("9[0].head")
    system = fake.adapter()
    system.snapshot()
    fake.run_job(job, NOW - 5)
    told = [len(system.snapshot().started)]
    for state in (suspended, "R", suspended):
        fake.change(job, job_state=state)
        told.append(len(system.snapshot().started))
    assert told == [1, 0, 0, 0]
    fake.end_job(job, NOW - 1)
    assert len(system.snapshot().ended) == 1


def test_the_first_snapshot_tells_the_runs_of_the_past(fake: FakePbs) -> None:
    accounting = fake.home / "server_priv" / "accounting"
    write_month(accounting, 2000, packed=2)
    now = FIRST_DAY + 30 * 86400.0
    system = fake.adapter(history_days=10.0)
    system._given = replace(system._given, clock=lambda: now)  # of the month that was made up
    first, second = system.snapshot().ended, system.snapshot().ended
    assert first.from_accounting
    assert 0 < len(first) < 604
    assert (first.end > now - 12 * 86400).all()
    assert (len(second), second.from_accounting) == (0, False)


def test_without_readable_accounting_the_daemon_begins_without(fake: FakePbs) -> None:
    ended = fake.adapter(history_days=10.0).snapshot().ended
    assert (len(ended), ended.from_accounting) == (0, False)


def test_the_heartbeat_comes_and_goes(fake: FakePbs, tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    system = fake.adapter(state_file=tmp_path / "state.json")
    system.leave()
    system.beat()
    os.utime(heartbeat, (5, 5))
    system.beat()
    assert heartbeat.stat().st_mtime > 5
    system.leave()
    assert not heartbeat.exists()


@pytest.mark.parametrize(
    "site",
    tomllib.loads((ASSETS / "checks.toml").read_text())["site"],
    ids=lambda each: each["what"],
)
def test_checks(fake: FakePbs, tmp_path: Path, site: dict[str, Any]) -> None:
    fake.set(**site.get("changes", {}), **dict.fromkeys(site.get("gone", ())))
    if "sched_config" in site:
        (fake.home / "sched_priv" / "sched_config").write_text(site["sched_config"])
    checks = {check.name: check for check in fake.adapter().own_checks()}
    found = checks[site["name"]]
    assert found.result == site["result"]
    assert found.what.replace(str(tmp_path), "FOLDER") == site["what"]
    assert ("strict_ordering" in checks) == ("sched_config" in site)


def test_an_ended_job_tells_whether_its_limit_ended_it(fake: FakePbs) -> None:
    """One ran ten minutes, as long as it had asked for; the other a second less."""
    system = fake.adapter()
    system.snapshot()
    for job, seconds in ((1, 600), (3, 599)):
        fake.run_job(f"{job}.head", NOW - seconds)
    system.snapshot()
    for job in (1, 3):
        fake.end_job(f"{job}.head", NOW)
    ended = system.snapshot().ended
    assert ended.jobs.by_limit is not None
    assert dict(zip(ended.jobs.job_id.tolist(), ended.timed_out.tolist(), strict=True)) == {
        1: True,
        3: False,
    }
    assert ended.jobs.by_limit.tolist() == [True, True]
