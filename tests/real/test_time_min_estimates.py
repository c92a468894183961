"""Plan estimates on a real Slurm: backfill plans by TimeMin, and what it forgets is kept off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slurm_rl_plugin.batch_systems.port import FAIL, PASS
from tests.architecture.markdown_documents import TOP, code_blocks, shell_lines
from tests.real.cluster_files import PARTITIONS
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.drawn_order import adapter_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.test_slurm_commands_real import scontrol, wait_state

pytestmark = pytest.mark.real

FLAG = "time_min_as_soft_limit"
#: The first release that knows the flag.
FIRST = (23, 11)
DOCUMENT = TOP / "docs" / "plan-estimates.md"
#: Nothing starts in `closed`; nobody's jobs are too long for it.
PLAN = ClusterPlan(
    accounts=ACCOUNTS,
    partitions=[*PARTITIONS, "PartitionName=closed Nodes=ALL MaxTime=UNLIMITED State=DOWN"],
    options={
        "AccountingStorageEnforce": "associations,limits,qos,safe",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=2,bf_continue,"
        f"bf_resolution=1,{FLAG}",
    },
)


@pytest.fixture(scope="module")
def flagged(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """One cluster with the flag for all tests; ask for `cluster` instead."""
    skip_without_daemons(release)
    with running_slurm(PLAN, release) as slurm:
        yield slurm


@pytest.fixture
def cluster(flagged: PrivateSlurm) -> Iterator[PrivateSlurm]:
    """It with an empty queue, on a release that knows the flag."""
    if flagged.number < FIRST:
        pytest.skip("needs Slurm 23.11 or later: make test-releases")
    yield flagged
    for user in ("root", "alice", "bob"):
        flagged.run("scancel", "-u", user)
    flagged.wait_until(lambda: not flagged.run("squeue", "-h").stdout, 20, "an empty queue")
    for name in ("maintenance", "drawing"):
        flagged.run("scontrol", "delete", f"reservation={name}", check=False)


def submit(slurm: PrivateSlurm, *options: str, minutes: float = 120, seconds: float = 300) -> int:
    """A job of alice's that waits in `closed`, unless an option names another partition."""
    where = () if any(word.startswith("--partition") for word in options) else ("-pclosed",)
    given = {"user": "alice", "account": "physics", "minutes": minutes, "seconds": seconds}
    return slurm.submit(*where, *options, **given)  # type: ignore[arg-type]


def whole_nodes(slurm: PrivateSlurm, *options: str, nodes: int = 1, **given: float) -> int:
    words = ("--partition=batch", f"--nodes={nodes}", f"--ntasks={nodes}", "--exclusive", *options)
    return submit(slurm, *words, **given)


def shown(slurm: PrivateSlurm, job: int, field: str) -> set[str]:
    """Values of a field of `squeue`, of every record of a job."""
    text = slurm.run("squeue", "-h", "-r", "-j", str(job), "-O", field).stdout
    return {line.strip() for line in text.splitlines()}


def seconds_of(slurm: PrivateSlurm, job: int, form: str) -> int:
    """A time of a running job, since the epoch."""
    epoch = {"SLURM_TIME_FORMAT": "%s"}
    return int(slurm.run("squeue", "-h", "-j", str(job), "-o", form, env=epoch).stdout)


def obstacle(slurm: PrivateSlurm, job: int) -> str:
    return adapter_of(slurm).estimates()[job].obstacle or ""


def assert_refused(slurm: PrivateSlurm, job: int, words: str) -> None:
    """Told as an obstacle and not written."""
    assert words in obstacle(slurm, job)
    report = adapter_of(slurm).write_estimates({job: 300})
    assert (report.applied, report.later) == (0, frozenset())
    assert words in report.rejected[job]
    assert shown(slurm, job, "MinTime") == {"0:00"}


def test_a_release_that_would_cut_limits_is_refused(flagged: PrivateSlurm) -> None:
    refused = adapter_of(flagged).estimates_refused()
    if flagged.number >= FIRST:
        assert refused is None
        return
    assert refused is not None
    assert refused.startswith("Slurm {}.{:02d}.".format(*flagged.number))
    job = submit(flagged)
    assert adapter_of(flagged).write_estimates({job: 300}).rejected == {job: refused}
    assert shown(flagged, job, "MinTime") == {"0:00"}
    flagged.run("scancel", str(job))


def test_backfill_starts_a_job_by_its_estimate_and_leaves_its_limit(
    cluster: PrivateSlurm,
) -> None:
    slurm = adapter_of(cluster)
    first = whole_nodes(cluster, minutes=60)
    wait_state(cluster, first, "RUNNING")
    head = whole_nodes(cluster, nodes=2, minutes=30)
    said = cluster.directory / "end-time"
    said.touch(mode=0o666)
    said.chmod(0o666)
    script = cluster.directory / "says-its-end.sh"
    script.write_text(f"#!/bin/sh\necho $SLURM_JOB_END_TIME >{said}\nsleep 300\n")
    words = ["sbatch", "--parsable", "--uid=alice", "--account=physics", "-N1", "--exclusive"]
    words += ["--time=120", "--nice=1000", "--chdir=/", "--output=/dev/null", str(script)]
    job = int(cluster.run(*words).stdout.partition(";")[0])
    assert slurm.estimates()[job].obstacle is None
    assert slurm.write_estimates({job: 241}).applied == 1
    assert shown(cluster, job, "MinTime") in ({"5:00"}, set())
    wait_state(cluster, job, "RUNNING", 30)
    assert shown(cluster, head, "State") == {"PENDING"}
    assert shown(cluster, job, "TimeLimit") == {"2:00:00"}
    cluster.wait_until(lambda: said.read_text() != "", 20, "the job's words")
    start = seconds_of(cluster, job, "%S")
    (line,) = [each for each in shell_lines(DOCUMENT) if each.endswith("%e")]
    inside = {"SLURM_JOB_ID": str(job), "SLURM_TIME_FORMAT": "%s"}
    end = int(cluster.run("sh", "-c", line, env=inside).stdout)
    assert end - start == 120 * 60
    assert int(said.read_text()) - start == pytest.approx(300, abs=2)
    # what it started with stays, and nobody says that it could be taken away
    assert job not in slurm.estimates()
    report = slurm.write_estimates({job: 0})
    assert (report.rejected, report.later) == ({job: "it waits no longer"}, frozenset())
    assert shown(cluster, job, "TimeLimit") == {"2:00:00"}


def test_without_the_flag_nothing_is_written_and_all_can_be_taken_back(
    cluster: PrivateSlurm,
) -> None:
    slurm = adapter_of(cluster)
    had, plain = submit(cluster), submit(cluster)
    assert slurm.write_estimates({had: 600}).applied == 1
    conf = cluster.directory / "etc" / "slurm.conf"
    text = conf.read_text()
    conf.write_text(text.replace(f",{FLAG}", ""))
    try:
        assert slurm.estimates_refused() is None  # slurmctld goes by what it has read
        cluster.restart("slurmctld")
        refused = slurm.estimates_refused()
        assert refused is not None
        assert refused.startswith(f"{FLAG} is not in SchedulerParameters")
        assert slurm.estimates()[had].seconds == 600
        report = slurm.write_estimates({had: 0, plain: 300})
        assert (report.applied, report.rejected) == (1, {plain: refused})
        assert shown(cluster, had, "MinTime") | shown(cluster, plain, "MinTime") == {"0:00"}
    finally:
        conf.write_text(text)
        cluster.restart("slurmctld")
    assert slurm.estimates_refused() is None


def test_a_heterogeneous_job_gets_none_and_a_users_own_is_taken_away(
    cluster: PrivateSlurm,
) -> None:
    second = (":", "--ntasks=1", "--partition=closed")
    assert_refused(cluster, submit(cluster, *second), "heterogeneous")
    own = submit(cluster, "--time-min=3", *second, "--time-min=4")
    slurm = adapter_of(cluster)
    assert slurm.estimates()[own].seconds == 240
    assert slurm.write_estimates({own: 0}).applied == 1
    assert shown(cluster, own, "MinTime") == {"0:00"}


def test_no_job_is_let_into_a_reservation(cluster: PrivateSlurm) -> None:
    slurm = adapter_of(cluster)
    job = whole_nodes(cluster, "--begin=now+1hour", minutes=120)
    assert slurm.write_estimates({job: 300}).applied == 1
    flags = ("duration=60", "users=root", "nodes=ALL", "flags=maint,ignore_jobs")
    scontrol(cluster, "create", "reservation=maintenance", "starttime=now+100minutes", *flags)
    told = slurm.estimates()[job]
    assert (told.seconds, told.obstacle) == (
        300,
        "its time limit reaches into reservation maintenance",
    )
    assert slurm.write_estimates({job: 0}).applied == 1
    scontrol(cluster, "update", f"jobid={job}", "starttime=now")
    assert_refused(cluster, job, "reservation maintenance")
    cluster.wait_until(
        lambda: "ReqNodeNotAvail" in "".join(shown(cluster, job, "Reason:60")), 20, "it waits"
    )
    short = submit(cluster, minutes=60)
    assert obstacle(cluster, short) == ""
    magnet = ("starttime=now", "duration=5", "users=bob", "nodes=n2", "flags=magnetic")
    scontrol(cluster, "create", "reservation=drawing", *magnet)
    assert obstacle(cluster, short) == "its time limit reaches into reservation drawing"
    inside = submit(cluster, "--reservation=maintenance", "--uid=root", "--account=root")
    assert "beyond the end of its reservation maintenance" in obstacle(cluster, inside)


def test_no_job_is_let_past_the_longest_time_of_a_partition(cluster: PrivateSlurm) -> None:
    job = submit(cluster, "--partition=short", minutes=300)
    cluster.wait_until(
        lambda: shown(cluster, job, "Reason") == {"PartitionTimeLimit"}, 20, "its reason"
    )
    assert_refused(cluster, job, "above MaxTime")
    assert_refused(cluster, submit(cluster, "--partition=closed,short", minutes=300), "MaxTime")
    assert_refused(cluster, submit(cluster, "--time=UNLIMITED"), "no time limit")
    assert_refused(cluster, submit(cluster, "--deadline=now+3days"), "deadline")
    (check,) = [
        each
        for each in adapter_of(cluster).estimate_checks(writes=False)
        if each.name == "estimates partitions"
    ]
    assert check.what.startswith("EnforcePartLimits=NO")


@pytest.mark.parametrize(
    ("kind", "name", "limit"),
    [
        ("account", "physics", "GrpTRESRunMins"),
        ("account", "physics", "GrpTRESMins"),  # enforced at the start by `safe`
        ("user", "alice", "MaxTRESMins"),
        ("qos", "normal", "MaxTRESRunMinsPU"),
    ],
)
def test_a_limit_on_minutes_of_processors_refuses_all(
    cluster: PrivateSlurm, kind: str, name: str, limit: str
) -> None:
    slurm = adapter_of(cluster)
    change = ("sacctmgr", "-i", "modify", kind, name, "set")
    cluster.run(*change, f"{limit}=cpu=60")
    try:
        job = submit(cluster, "--partition=batch")
        cluster.wait_until(
            lambda: re.search("Mins|Minutes", str(shown(cluster, job, "Reason:60"))) is not None,
            20,
            "that it waits by the limit",
        )
        refused = slurm.estimates_refused()
        assert refused is not None
        assert refused.startswith(limit)
        assert "would be passed by" in refused
        assert slurm.write_estimates({job: 300}).rejected == {job: refused}
    finally:
        cluster.run(*change, f"{limit}=cpu=-1")
    cluster.wait_until(lambda: slurm.estimates_refused() is None, 10, "no limit")


def test_a_users_own_is_told_and_only_differences_are_written(cluster: PrivateSlurm) -> None:
    slurm = adapter_of(cluster)
    own, plain = submit(cluster, "--time-min=7"), submit(cluster)
    assert {number: each.seconds for number, each in slurm.estimates().items()} == {
        own: 420,
        plain: 0,
    }
    assert slurm.write_estimates({own: 420, plain: 0}).applied == 0
    assert slurm.write_estimates({own: 421, plain: 1}).applied == 2
    assert shown(cluster, own, "MinTime") == {"8:00"}
    assert shown(cluster, plain, "MinTime") == {"1:00"}
    report = slurm.write_estimates({own: 7199, plain: 7140})
    assert report.applied == 1
    assert "not below its time limit" in report.rejected[own]
    assert report.later == {own}  # 8 minutes stand
    assert slurm.write_estimates({own: 0, plain: 0}).applied == 2


def test_what_slurm_refuses_meanwhile_is_told_in_its_words(cluster: PrivateSlurm) -> None:
    shorter, gone, good = (submit(cluster) for _ in range(3))
    done: list[str] = []

    def meanwhile(command: str, seconds: float) -> None:
        """Between the look and the write."""
        if command == "squeue" and not done:
            done.append(command)
            scontrol(cluster, "update", f"jobid={shorter}", "timelimit=5")
            cluster.run("scancel", str(gone))

    slurm = adapter_of(cluster, on_call=meanwhile)
    report = slurm.write_estimates({shorter: 600, gone: 600, good: 600})
    assert report.applied == 1
    assert report.rejected.keys() == {shorter, gone}
    assert "Invalid time-min specification" in report.rejected[shorter]
    assert report.later == frozenset()
    assert shown(cluster, good, "MinTime") == {"10:00"}


def test_an_array_has_one_estimate_while_it_is_one_record(cluster: PrivateSlurm) -> None:
    slurm = adapter_of(cluster)
    array = submit(cluster, "--array=1-6")
    assert slurm.write_estimates({array: 300}).applied == 1
    assert shown(cluster, array, "MinTime") == {"5:00"}
    scontrol(cluster, "update", f"jobid={array}_3", "timemin=9")
    told = slurm.estimates()[array]
    assert (told.seconds, "2 records" in (told.obstacle or "")) == (540, True)
    assert "2 records" in slurm.write_estimates({array: 600}).rejected[array]
    assert slurm.write_estimates({array: 0}).applied == 1
    assert shown(cluster, array, "MinTime") == {"0:00"}


def test_tasks_that_have_started_keep_their_limit_whatever_is_written(
    cluster: PrivateSlurm,
) -> None:
    slurm = adapter_of(cluster)
    array = submit(cluster, "--partition=batch", "--array=1-4%2", minutes=60)
    cluster.wait_until(lambda: "RUNNING" in shown(cluster, array, "State"), 20, "a task")
    cluster.wait_until(
        lambda: shown(cluster, array, "Reason") >= {"JobArrayTaskLimit"}, 20, "the others wait"
    )
    for seconds in (300, 0):
        assert slurm.write_estimates({array: seconds}).rejected == {}
        assert slurm.estimates()[array].seconds == seconds
    assert shown(cluster, array, "TimeLimit") == {"1:00:00"}


def test_checks_of_a_cluster_that_can(cluster: PrivateSlurm) -> None:
    job = submit(cluster)
    checks = {each.name: each for each in adapter_of(cluster).estimate_checks(writes=True)}
    assert [each for each in checks.values() if each.result == FAIL] == []
    assert checks["estimates right"].what.startswith(f"job {job}")
    running = checks["estimates running jobs"].result
    assert (running == PASS) == (cluster.number >= (25, 11))
    assert "SLURM_JOB_END_TIME" in checks["estimates end time"].what


def test_all_are_taken_away_as_documented(cluster: PrivateSlurm) -> None:
    jobs = [submit(cluster, "--time-min=7"), submit(cluster), submit(cluster, "--array=1-30")]
    assert adapter_of(cluster).write_estimates({jobs[2]: 300}).applied == 1
    scontrol(cluster, "update", f"jobid={jobs[2]}_3", "timemin=9")
    (line,) = [each for each in shell_lines(DOCUMENT) if each.endswith("| scontrol")]
    done = cluster.run("sh", "-c", line)
    assert done.stdout.count("update jobid=") == 3  # the array's two records and a job
    assert {each.seconds for each in adapter_of(cluster).estimates().values()} == {0}


def test_users_own_are_forbidden_as_documented(release: SlurmRelease | None) -> None:
    skip_without_daemons(release)
    (script,) = [block.text for block in code_blocks(DOCUMENT) if block.kind == "lua"]
    options = {**PLAN.options, "JobSubmitPlugins": "lua"}
    plan = replace(PLAN, options=options, files={"job_submit.lua": script})
    with running_slurm(plan, release) as slurm:
        submitted = ("sbatch", "-pclosed", "-t120", "--chdir=/", "-o/dev/null", "--wrap=true")
        refused = slurm.run(*submitted, "--time-min=5", user="alice", check=False)
        assert "--time-min is not for users here" in refused.stderr
        job = int(slurm.run(*submitted, "--parsable", user="alice").stdout)
        change = ("scontrol", "update", f"jobid={job}")
        assert slurm.run(*change, "timemin=5", user="alice", check=False).returncode == 1
        slurm.run(*change, "timelimit=90", user="alice")
        slurm.run(*change, "timemin=5")  # who may
        assert shown(slurm, job, "MinTime") == {"5:00"}
        slurm.run(*change, "timemin=0", "timelimit=3", user="alice")  # who may lower his limit


def test_a_write_is_one_look_before_it_and_one_after(cluster: PrivateSlurm) -> None:
    calls: list[str] = []
    slurm = adapter_of(cluster, on_call=lambda name, seconds: calls.append(name))
    jobs = [submit(cluster) for _ in range(20)]
    assert slurm.write_estimates(dict.fromkeys(jobs, 300)).applied == 20
    assert calls.count("squeue") == 2
    assert slurm.write_estimates(dict.fromkeys(jobs, 0)).applied == 20
