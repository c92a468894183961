"""OpenPBS: which jobs may have a soft_walltime, what is written, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import read_sched_config
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.lever.soft_walltimes import write_soft_walltimes
from slurm_rl_plugin.batch_systems.pbs.plan_estimates import requirements
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.closed_times import parse_dedicated
from slurm_rl_plugin.batch_systems.plan_port import ChecksEstimates, JobEstimate, PlansByEstimates
from slurm_rl_plugin.batch_systems.port import Check
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from tests.fakes.fake_pbs_cluster import NOW, FakePbs, fake_libpbs

DAY = 86400.0
SUBJOB = job_number("5[2].head")
assert SUBJOB is not None


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_libpbs(tmp_path_factory.mktemp("libpbs"))


@pytest.fixture(params=["libpbs", "qalter"])
def fake(request: pytest.FixtureRequest, tmp_path: Path, library: Path) -> FakePbs:
    """Jobs 1 to 3 wait, 4 runs, 5 is an array whose subjob 2 runs; walltime 10 minutes."""
    return planning(FakePbs(tmp_path, library if request.param == "libpbs" else None))


@pytest.fixture
def plain(tmp_path: Path) -> FakePbs:
    """The same without libpbs, for what has nothing to do with how it is written."""
    return planning(FakePbs(tmp_path))


def planning(fake: FakePbs) -> FakePbs:
    for job in (1, 2, 3, 4):
        fake.add(f"{job}.head")
    fake.run_job("4.head")
    counts = "Queued:3 Running:1 Exiting:0 Expired:0 "
    fake.add("5[].head", array="True", job_state="B", array_state_count=counts)
    fake.add("5[2].head", job_state="R", stime=NOW)
    fake.plan()
    return fake


def adapter(fake: FakePbs, timeout: float = 10.0) -> Pbs:
    return Pbs(
        AdapterParts(
            shares=None,
            interactive=JobClassifier().is_interactive,
            clock=lambda: float(NOW),
            timeout=timeout,
            environment=fake.env,
        )
    )


def written(fake: FakePbs) -> list[str]:
    """Every value of a soft_walltime that PBS was sent."""
    found: list[str] = []
    for command, *words in fake.state.get("calls", []):
        if command == "qalter":
            found.append(words[1].partition("=")[2])
        elif words[:1] == ["alter"]:
            found.append(words[3])
    return found


def obstacle(fake: FakePbs, job: int = 1) -> str:
    return adapter(fake).estimates()[job].obstacle or ""


def failed_checks(fake: FakePbs) -> list[Check]:
    checks = adapter(fake).estimate_checks(writes=False)
    return [check for check in checks if check.result == "fail"]


def dedicated(begin: float, end: float) -> str:
    """A line of dedicated_time, in this process's zone as pbs_sched reads it in its own."""
    times = (time.strftime("%m/%d/%Y %H:%M", time.localtime(at)) for at in (begin, end))
    return " ".join(times)


def test_the_adapter_plans_by_estimates(fake: FakePbs) -> None:
    system = adapter(fake)
    assert isinstance(system, PlansByEstimates)
    assert isinstance(system, ChecksEstimates)
    assert system.estimates_refused() is None


def test_an_estimate_is_written_seen_and_taken_away(fake: FakePbs) -> None:
    system = adapter(fake)
    plain = {job: each for job, each in system.estimates().items() if each.obstacle is None}
    assert plain == dict.fromkeys((1, 2, 3), JobEstimate(seconds=0))
    report = system.write_estimates({1: 60, 2: 599, 3: 90})
    assert (report.applied, report.rejected, report.later) == (3, {}, frozenset())
    told = [fake.soft_walltime(f"{job}.head") for job in (1, 2, 3)]
    assert told == ["00:01:00", "00:09:59", "00:01:30"]
    seconds = {job: each.seconds for job, each in system.estimates().items()}
    assert seconds == {1: 60, 2: 599, 3: 90, 5: 0}
    assert system.write_estimates({1: 0, 2: 0, 3: 0, 5: 0}).rejected == {}
    assert fake.soft_walltime("1.head") is None
    assert {each.seconds for each in system.estimates().values()} == {0}
    assert written(fake) == ["60", "599", "90", "", "", "", ""]


def test_an_array_gets_none_and_loses_what_it_has(fake: FakePbs) -> None:
    system = adapter(fake)
    assert "subjobs would keep it" in (system.estimates()[5].obstacle or "")
    assert "subjobs would keep it" in system.write_estimates({5: 90}).rejected[5]
    fake.request("5[].head", soft_walltime="00:02:00")
    assert system.write_estimates({5: 0}).applied == 1
    assert fake.soft_walltime("5[].head") is None


def test_a_running_jobs_estimate_is_taken_away_and_none_is_given(fake: FakePbs) -> None:
    system = adapter(fake)
    assert system.write_estimates({1: 300}).applied == 1
    fake.run_job("1.head")
    assert system.estimates()[1] == JobEstimate(seconds=300)
    assert system.write_estimates({1: 200, 4: 200}).rejected == dict.fromkeys(
        (1, 4), "it waits no longer"
    )
    assert fake.soft_walltime("1.head") == "00:05:00"
    assert system.write_estimates({1: 0}).applied == 1
    assert fake.soft_walltime("1.head") is None
    assert 1 not in system.estimates()


def test_the_scheduler_is_made_to_look_when_a_job_gets_one(plain: FakePbs) -> None:
    system = adapter(plain)
    for wanted, looks in (({1: 0}, 0), ({1: 90}, 1), ({1: 90, 2: 30}, 1), ({1: 80, 2: 0}, 2)):
        system.write_estimates(wanted)
        assert [call[0] for call in plain.state["calls"]].count("qmgr") == looks
    plain.set_server(scheduling="False")
    assert system.write_estimates({1: 70}).applied == 1
    assert [call[0] for call in plain.state["calls"]].count("qmgr") == 2


@pytest.mark.parametrize("state", ["R", "E"])
def test_what_cannot_be_taken_away_is_told(fake: FakePbs, state: str) -> None:
    fake.request("5[2].head", soft_walltime="00:02:00")
    fake.request("4.head", soft_walltime="00:02:00")
    fake.change("4.head", job_state=state)
    system = adapter(fake)
    found = system.estimates()
    assert (found[SUBJOB or 0].seconds, found[4].seconds) == (120, 120)
    assert "arrays as a whole only" in (found[SUBJOB or 0].obstacle or "")
    report = system.write_estimates({SUBJOB or 0: 0, 4: 0})
    assert report.applied == (1 if state == "R" else 0)
    assert found[4].obstacle == (None if state == "R" else "it is about to end")


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"walltime": None}, "no walltime of more than 60 s"),
        ({"walltime": "00:01:00"}, "no walltime of more than 60 s"),
        ({"min_walltime": "00:05:00", "walltime": None}, "min_walltime or max_walltime"),
        ({"max_walltime": "00:50:00"}, "min_walltime or max_walltime"),
        ({"soft_walltime": "00:00:00"}, "ends pbs_sched"),
        ({"soft_walltime": "nonsense"}, "ends pbs_sched"),
    ],
)
def test_jobs_that_must_not_have_one(fake: FakePbs, resources: dict[str, Any], words: str) -> None:
    fake.request("1.head", **resources)
    assert words in obstacle(fake)
    report = adapter(fake).write_estimates({1: 90, 2: 90})
    assert words in report.rejected[1]
    assert report.applied == 1
    assert written(fake) == ["90"]
    assert adapter(fake).write_estimates({1: 0}).rejected == {}


def test_a_job_in_a_reservation_must_not_have_one(plain: FakePbs) -> None:
    for queue, bound in (("R17", True), ("S3", True), ("Research", False), ("R", False)):
        plain.change("1.head", queue=queue)
        assert ("reservation" in obstacle(plain)) == bound


@pytest.mark.parametrize(
    ("begin", "end", "near"),
    [
        (NOW + 60, NOW + 3600, True),
        (NOW - 3600, NOW + 60, True),
        (NOW + DAY, NOW + 2 * DAY, True),
        (NOW + 2 * DAY, NOW + 3 * DAY, False),
        (NOW - 2 * DAY, NOW - DAY, False),
    ],
)
def test_no_job_that_could_run_into_dedicated_time(
    plain: FakePbs, begin: float, end: float, near: bool
) -> None:
    plain.plan(dedicated=dedicated(begin, end))
    assert ("dedicated time" in obstacle(plain)) == near
    assert adapter(plain).write_estimates({1: 90}).applied == (0 if near else 1)
    plain.request("2.head", walltime="72:00:00")
    assert ("dedicated time" in obstacle(plain, 2)) == (end > NOW)


def test_queues_of_dedicated_time_are_left_alone(plain: FakePbs) -> None:
    plain.change("1.head", queue="dedwork")
    assert "dedicated time" in obstacle(plain)
    plain.plan("dedicated_prefix: x\n")
    assert obstacle(plain) == ""


@pytest.mark.parametrize(
    ("lines", "queue", "free"),
    [
        ("backfill_prime: true ALL", "workq", False),
        ("backfill_prime: true non_prime", "workq", False),
        ("backfill_prime: true ALL\nprime_exempt_anytime_queues: true", "workq", True),
        ("backfill_prime: true ALL\nprime_exempt_anytime_queues: true", "p_work", False),
        ("backfill_prime: true ALL\nprime_exempt_anytime_queues: true", "np_work", False),
        ("backfill_prime: true ALL\nbackfill_prime: false ALL", "workq", True),
        ("backfill_prime: true none", "workq", True),
    ],
)
def test_no_job_that_could_cross_prime_time(
    plain: FakePbs, lines: str, queue: str, free: bool
) -> None:
    plain.plan(lines)
    plain.change("1.head", queue=queue)
    assert (obstacle(plain) == "") == free


@pytest.mark.parametrize("name", ["sched_config", "dedicated_time"])
def test_a_file_that_cannot_be_read_refuses_all(plain: FakePbs, name: str) -> None:
    path = plain.home / "sched_priv" / name
    path.unlink()
    path.mkdir()
    words = adapter(plain).estimates_refused() or ""
    assert f"{path} cannot be read" in words
    assert [check.what for check in failed_checks(plain)] == [words]
    assert "make it readable" in words
    assert obstacle(plain) == words
    assert adapter(plain).write_estimates({1: 90}).rejected == {1: words}
    assert written(plain) == []


def test_without_dedicated_time_there_is_none(plain: FakePbs) -> None:
    (plain.home / "sched_priv" / "dedicated_time").unlink()
    assert adapter(plain).estimates_refused() is None
    plain.plan(dedicated="04/15 12:00 to 15:30")
    assert "line 2: no begin and end" in (adapter(plain).estimates_refused() or "")
    plain.plan(dedicated="13/45/2026 12:00 04/15/2026 15:30")
    assert "line 2: no such date" in (adapter(plain).estimates_refused() or "")


def test_dedicated_times_of_two_digits() -> None:
    (span,) = parse_dedicated("4/15/26 16:00 4/15/2026 16:40\n#\n")
    assert span[1] - span[0] == 2400


REFUSALS: list[tuple[Callable[[FakePbs], None], str]] = [
    (lambda fake: fake.plan("strict_ordering: false ALL"), "strict_ordering: true ALL"),
    (lambda fake: fake.plan("strict_ordering: false prime"), "strict_ordering: true ALL"),
    (lambda fake: fake.set_server(backfill_depth=0), "set server backfill_depth = 1"),
    (
        lambda fake: fake.set(schedulers=["default", "mul"]),
        "not one scheduler but default, mul",
    ),
    (lambda fake: fake.set(defaults={"soft_walltime": "01:00:00"}), "resources_default.soft"),
]


@pytest.mark.parametrize(("change", "words"), REFUSALS)
def test_where_it_would_do_nothing_or_harm(
    plain: FakePbs, change: Callable[[FakePbs], None], words: str
) -> None:
    change(plain)
    told = adapter(plain).estimates_refused() or ""
    assert words in told
    assert told in [check.what for check in failed_checks(plain)]


def test_a_user_who_is_no_manager(plain: FakePbs, monkeypatch: pytest.MonkeyPatch) -> None:
    mira = SimpleNamespace(pw_name="mira")
    monkeypatch.setattr(requirements, "pwd", SimpleNamespace(getpwuid=lambda _: mira))
    told = adapter(plain).estimates_refused() or ""
    assert told.startswith("mira is no manager of PBS")
    assert told in [check.what for check in failed_checks(plain)]
    plain.set_server(managers="boss@head,mira@*")
    assert adapter(plain).estimates_refused() is None


def test_depth_of_a_queue_goes_before_the_servers(plain: FakePbs) -> None:
    for depth in (0, 2):
        names = plain.state["queues"]
        plain.set_server(backfill_depth=2 - depth)
        for name in names:
            plain.set_queue(name, attributes={"backfill_depth": depth})
        assert (adapter(plain).estimates_refused() is None) == (depth == 2)


def test_a_default_of_a_queue_is_seen(plain: FakePbs) -> None:
    defaults = {"resources_default": {"soft_walltime": "01:00:00"}}
    plain.set_queue("long", attributes=defaults)
    assert "queue long has resources_default" in (adapter(plain).estimates_refused() or "")


@pytest.mark.parametrize("mode", ["operator", "deny"])
def test_who_is_no_manager_is_told_so(fake: FakePbs, mode: str) -> None:
    for command in ("qalter", "pbs_ifl"):
        fake.break_command(command, mode)
    with pytest.raises(ChangeRejected, match="nobody but managers"):
        adapter(fake).write_estimates({1: 90, 2: 90, 99: 90})
    checks = {check.name: check for check in adapter(fake).estimate_checks(writes=True)}
    assert checks["estimates right"].result == "fail"
    assert "set server managers +=" in checks["estimates right"].what


def test_what_is_not_read_back_is_no_success(fake: FakePbs) -> None:
    fake.request("2.head", soft_walltime="00:05:00")
    for command in ("qalter", "pbs_ifl"):
        fake.break_command(command, "lose")
    report = adapter(fake).write_estimates({1: 90, 2: 0, 3: 0})
    assert report.rejected == {
        1: "not read back: it has none",
        2: "not read back: it has 00:05:00",
    }
    assert (report.applied, report.later) == (1, frozenset({2}))


def test_jobs_that_are_gone(fake: FakePbs) -> None:
    system = adapter(fake)
    fake.forget("2.head")
    fake.end_job("3.head")
    report = system.write_estimates({1: 90, 2: 90, 3: 90, 99: 0})
    assert report.rejected == dict.fromkeys((2, 3, 99), "Unknown Job Id")
    assert (report.applied, report.later) == (1, frozenset())


def test_a_server_that_is_gone(fake: FakePbs) -> None:
    for command in ("qstat", "pbs_ifl", "qalter"):
        fake.break_command(command, "down")
    system = adapter(fake)
    calls: list[Callable[[], object]] = [
        system.estimates_refused,
        system.estimates,
        lambda: system.write_estimates({1: 90}),
        lambda: list(system.estimate_checks(writes=True)),
    ]
    for call in calls:
        with pytest.raises(BatchSystemUnavailable):
            call()


def test_every_check_passes_where_all_is_well(fake: FakePbs) -> None:
    fake.plan('resources: "ncpus, mem,soft_walltime"')
    checks = list(adapter(fake).estimate_checks(writes=True))
    assert {check.result for check in checks} == {"pass"}
    assert "tried on job 1.head" in next(c.what for c in checks if c.name == "estimates right")
    assert written(fake) == [""]
    list(adapter(fake).estimate_checks(writes=False))
    assert written(fake) == [""]


@pytest.mark.parametrize(
    ("change", "name", "result"),
    [
        (lambda fake: fake.plan(), "estimates resources", "warn"),
        (lambda fake: fake.request("4.head", soft_walltime="00:00:00"), "estimates zero", "fail"),
        (lambda fake: fake.plan("backfill_prime: true ALL"), "estimates prime time", "warn"),
        (lambda fake: fake.set_server(pbs_version="22.05.11"), "estimates release", "warn"),
    ],
)
def test_the_other_checks_of_estimates(
    plain: FakePbs, change: Callable[[FakePbs], None], name: str, result: str
) -> None:
    change(plain)
    checks = {check.name: check for check in adapter(plain).estimate_checks(writes=False)}
    assert checks[name].result == result
    assert "qalter" in checks[name].what or "HUP" in checks[name].what or result == "warn"


def test_the_right_is_not_tried_without_a_job(tmp_path: Path) -> None:
    fake = FakePbs(tmp_path)
    fake.plan()
    checks = {check.name: check for check in adapter(fake).estimate_checks(writes=True)}
    assert "not tried" in checks["estimates right"].what


def test_lines_of_sched_config(tmp_path: Path) -> None:
    path = tmp_path / "sched_config"
    path.write_text(
        "#strict_ordering: true ALL\n strict_ordering :True\tprime\nby_queue:1 NON_PRIME\n"
        'resources: "ncpus, \\\nsoft_walltime" ALL\nprimetime_prefix: p_\nwithout a colon\n:\n'
    )
    config = read_sched_config(path)
    assert (config.ever("strict_ordering"), config.always("strict_ordering")) == (True, False)
    assert config.ever("by_queue")
    assert config.resources() == ("ncpus", "soft_walltime")
    assert (config.text("primetime_prefix"), config.text("none")) == ("p_", "")


@pytest.mark.parametrize(
    ("value", "is_true"),
    [
        *(("True", True), ("1", True), ("yes", True), ("no", True), ("2x", True)),
        *(("FALSE", False), ("0", False), ("00", False), ("0x", False), ('""', False)),
    ],
)
def test_what_pbs_sched_takes_for_true(tmp_path: Path, value: str, is_true: bool) -> None:
    """Any word but `false` is, and a number by what it begins with (parse_config of 23.06)."""
    path = tmp_path / "sched_config"
    path.write_text(f"by_queue: {value}\tprime\n")
    config = read_sched_config(path)
    assert (config.ever("by_queue"), config.always("by_queue")) == (is_true, False)


@pytest.mark.parametrize("seconds", [-1, 1, 59, True, 60.5])
def test_the_last_guard_sends_nothing(seconds: Any) -> None:
    with pytest.raises(BatchSystemError, match="neither 0 nor whole seconds from 60 on"):
        write_soft_walltimes(None, {"1.head": seconds})  # type: ignore[arg-type]
