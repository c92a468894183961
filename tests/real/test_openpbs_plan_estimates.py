"""Plan estimates on a real OpenPBS: who starts by them, who is never killed by them.

`make test-pbs` asks for these. One cycle of pbs_sched looks at the whole queue and takes a part of
a second here; a cycle is asked for by setting `scheduling` anew.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import PBSNODES, parse_capacity
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.lever.soft_walltimes import write_soft_walltimes
from slurm_rl_plugin.batch_systems.pbs.lever.writes import Ifl, Qalter
from slurm_rl_plugin.batch_systems.pbs.queue.reader import PbsQueueReader
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.hook.plan.estimates import plan_path
from slurm_rl_plugin.hook.plan.plan_file import PlanFile, PlanMemory
from tests.architecture.markdown_documents import TOP, section
from tests.functional.test_system_files import settings
from tests.real.openpbs_server import InstalledPbs, missing_openpbs
from tests.real.system_users import add_system_user

pytestmark = pytest.mark.real

USER = "alice"
RESOURCES = re.compile(r'^(resources:\s*"[^"]*)"', re.MULTILINE)
#: Seconds in which a cycle that was asked for has been held.
A_CYCLE = 4.0


def adapter(server: InstalledPbs) -> Pbs:
    return Pbs(
        AdapterParts(
            shares={USER: 1.0},
            interactive=bool,
            clock=time.time,  # noqa: TID251
            environment=server.env,
        )
    )


def number(name: str) -> int:
    found = job_number(name)
    assert found is not None
    return found


class PlanningPbs(InstalledPbs):
    """A server that plans a start for its first waiting job."""

    def __init__(self) -> None:
        super().__init__()
        self.system = adapter(self)
        self.processors = parse_capacity(self.system.commands.read_json(PBSNODES))

    def cycle(self) -> None:
        self.qmgr("set server scheduling = True")
        time.sleep(A_CYCLE)

    def job(self, processors: int, walltime: int, seconds: float = 600, *more: str) -> str:
        asked = f"ncpus={processors},walltime={walltime}"
        return self.submit("-l", asked, *more, user=USER, seconds=seconds)

    def soft(self, job: str) -> str:
        return self.told(job, "Resource_List.soft_walltime")

    def busy_but_for(self, free: int) -> tuple[str, str]:
        """A job that leaves so many processors free for 200 s, and one that waits for all."""
        running = self.job(self.processors - free, 200)
        self.wait_until(lambda: self.state(running) == "R", 30, "start of the running job")
        top = self.job(self.processors, 300)
        self.cycle()
        assert self.state(top) == "Q"
        assert self.told(top, "estimated.start_time"), "no start is planned for the top job"
        return running, top


@pytest.fixture(scope="module")
def prepared() -> Iterator[PlanningPbs]:
    """`strict_ordering` on, and all as it was afterwards."""
    reason = missing_openpbs()
    if reason is not None:
        pytest.skip(reason)
    add_system_user(USER)
    server = PlanningPbs()
    server.delete_all()
    home = server.home_of(USER)
    server.qmgr("set server job_history_enable = True")
    server.qmgr("set server flatuid = True")
    server.qmgr("unset server backfill_depth")
    config = (server.files / "sched_config").read_text()
    assert re.search(r"^strict_ordering:", config, re.MULTILINE)
    planned = re.sub(r"^strict_ordering:.*$", "strict_ordering: true ALL", config, flags=re.M)
    with server.changed("sched_config", planned):
        yield server
        server.delete_all()
        server.qmgr("set server scheduling = True")
    if home is not None:
        home.rmdir()


@pytest.fixture
def server(prepared: PlanningPbs) -> Iterator[PlanningPbs]:
    assert prepared.processors >= 2, "these tests need two processors, pretended ones will do"
    prepared.qmgr("set server scheduling = True")
    assert prepared.system.estimates_refused() is None
    yield prepared
    prepared.delete_all()
    prepared.wait_until(lambda: not prepared.run("qselect").stdout, 60, "empty queue")
    assert prepared.run("pgrep", "-x", "pbs_sched", check=False).returncode == 0


def test_a_filler_starts_by_its_estimate_and_loses_it(server: PlanningPbs) -> None:
    half = server.processors // 2
    _, top = server.busy_but_for(half)
    filler = server.job(half, 900)
    server.cycle()
    assert server.state(filler) == "Q"
    assert "conflict with reservation or top job" in server.told(filler, "comment")
    system = server.system
    assert system.estimates()[number(filler)].obstacle is None
    report = system.write_estimates({number(filler): 60})
    assert (report.applied, report.rejected) == (1, {})
    assert server.soft(filler) == "00:01:00"
    server.wait_until(lambda: server.state(filler) == "R", 20, "start of the filler")
    standing = system.estimates()[number(filler)]
    assert (standing.seconds, standing.obstacle) == (60, None)
    assert system.write_estimates({number(filler): 0}).rejected == {}
    assert (server.soft(filler), server.state(filler)) == ("", "R")
    assert number(filler) not in system.estimates()
    assert server.told(filler, "Resource_List.walltime") == "00:15:00"
    before = server.told(top, "estimated.start_time")
    server.cycle()
    assert server.told(top, "estimated.start_time") > before, "walltime does not count again"


def test_a_job_that_outlives_its_estimate_ends_by_itself(server: PlanningPbs) -> None:
    server.qmgr("set server scheduling = False")
    job = server.job(1, 600, seconds=80)
    assert server.system.write_estimates({number(job): 60}).rejected == {}
    server.cycle()
    server.wait_until(lambda: server.state(job) == "R", 20, "start")
    time.sleep(66)
    server.cycle()
    assert server.state(job) == "R"
    assert server.told(job, "estimated.soft_walltime") == "00:02:00"
    server.wait_until(lambda: server.state(job) == "F", 60, "end")
    assert server.told(job, "Exit_status") == "0"
    assert server.told(job, "resources_used.walltime") >= "00:01:15"


def test_a_confirmed_reservation_is_safe(server: PlanningPbs) -> None:
    begin = time.strftime("%H%M.%S", time.localtime(time.time() + 100))  # noqa: TID251
    asked = ["-R", begin, "-D", "120", "-l", f"select=1:ncpus={server.processors}"]
    name = server.run("pbs_rsub", *asked, user=USER).stdout.split()[0]
    try:
        server.cycle()
        confirmed = server.run("pbs_rstat", "-f", name).stdout
        assert "RESV_CONFIRMED" in confirmed
        server.qmgr("set server scheduling = False")
        long, short = server.job(1, 600), server.job(1, 61, seconds=1)
        assert server.system.write_estimates({number(long): 60}).rejected == {}
        server.cycle()
        assert server.state(short) != "Q", "the hole is too short for the control"
        assert server.state(long) == "Q"
    finally:
        server.run("pbs_rdel", name)
    server.cycle()
    server.wait_until(lambda: server.state(long) == "R", 30, "start after the reservation")


def test_no_estimate_near_dedicated_time(server: PlanningPbs) -> None:
    """Without the guard the job starts: a manager's own soft_walltime shows it."""
    first = time.time() + 150  # noqa: TID251
    span = [time.strftime("%m/%d/%Y %H:%M", time.localtime(first + at)) for at in (0, 600)]
    server.qmgr("set server scheduling = False")
    with server.changed("dedicated_time", f"{' '.join(span)}\n"):
        job = server.job(1, 900)
        server.cycle()
        assert "dedicated time" in server.told(job, "comment").lower()
        assert "dedicated time" in (server.system.estimates()[number(job)].obstacle or "")
        report = server.system.write_estimates({number(job): 60})
        assert "dedicated time" in report.rejected[number(job)]
        assert server.soft(job) == ""
        server.cycle()
        assert server.state(job) == "Q"
        server.run("qalter", "-l", "soft_walltime=20", job)
        server.cycle()
        assert server.state(job) == "R", "dedicated time is safe: the guard is needless"


def test_no_estimate_where_jobs_must_not_cross_into_prime_time(server: PlanningPbs) -> None:
    """Without the guard the job starts, as before dedicated time."""
    now = time.time()  # noqa: TID251
    span = " ".join(time.strftime("%H%M", time.localtime(now + at)) for at in (300, 7200))
    year = time.strftime("YEAR %Y", time.localtime(now))
    days = "".join(f"{day} {span}\n" for day in ("weekday", "saturday", "sunday"))
    config = (server.files / "sched_config").read_text()
    bound = re.sub(r"^backfill_prime:.*$", "backfill_prime: true ALL", config, flags=re.M)
    server.qmgr("set server scheduling = False")
    with (
        server.changed("holidays", f"{year}\n{days}"),
        server.changed("sched_config", bound),
    ):
        job, short = server.job(1, 900), server.job(1, 120)
        server.cycle()
        assert server.state(short) == "R"
        assert "cross into" in server.told(job, "comment")
        assert "prime time" in (server.system.estimates()[number(job)].obstacle or "")
        report = server.system.write_estimates({number(job): 60})
        assert "prime time" in report.rejected[number(job)]
        server.run("qalter", "-l", "soft_walltime=20", job)
        server.cycle()
        assert server.state(job) == "R", "prime time is safe: the guard is needless"


@pytest.mark.parametrize("sender", [Ifl, Qalter])
def test_all_are_taken_back(server: PlanningPbs, sender: type) -> None:
    server.qmgr("set server scheduling = False")
    names = [server.job(1, 600) for _ in range(20)]
    system = adapter(server)
    assert isinstance(system._sender, Ifl), "the installation has no libpbs.so"
    if sender is Qalter:
        system._sender = Qalter(system.commands)
        system._queue = PbsQueueReader(system.commands, None)
    wanted = {number(name): 60 + place for place, name in enumerate(names)}
    assert system.write_estimates(wanted).rejected == {}
    assert {job: each.seconds for job, each in system.estimates().items()} == wanted
    refused, still = write_soft_walltimes(system._sender, {names[0]: 601})
    assert "Illegal attribute or resource value" in refused[names[0]]
    assert still == {names[0]}
    assert system.write_estimates(dict.fromkeys(wanted, 0)).rejected == {}
    assert "soft_walltime" not in server.run("qstat", "-f", *names).stdout


def test_all_are_taken_away_by_hand(server: PlanningPbs) -> None:
    """By the line of the document, while none of us runs; jobs of all kinds."""
    running = server.job(1, 600)
    server.wait_until(lambda: server.state(running) == "R", 30, "start")
    server.qmgr("set server scheduling = False")
    waiting = [
        server.job(1, 600),
        server.job(1, 600, 600, "-h"),
    ]
    array = server.job(1, 600, 1, "-J", "1-3")
    server.run("qalter", "-l", "soft_walltime=90", running, array)  # by another manager
    assert server.system.write_estimates(dict.fromkeys(map(number, waiting), 90)).applied == 2
    words = section(TOP / "docs" / "plan-estimates.md", "OpenPBS")
    (line,) = re.findall(r"^# (qselect .*)$", words, re.MULTILINE)
    server.run("sh", "-c", line)
    assert "soft_walltime" not in server.run("qstat", "-f", running, array, *waiting).stdout
    assert server.state(running) == "R"


@pytest.mark.parametrize(
    ("unit", "key"), [("slurm-rl", "ExecStopPost"), ("slurm-rl-watchdog", "ExecStart")]
)
def test_the_command_of_the_unit_takes_back_what_a_killed_daemon_left(
    server: PlanningPbs, tmp_path: Path, unit: str, key: str
) -> None:
    """By the file that it left; what another manager has set stays."""
    server.qmgr("set server scheduling = False")
    ours, others = (server.job(1, 600) for _ in range(2))
    state = tmp_path / "state.json"
    StateFile(state).write(set())
    PlanFile(plan_path(state)).write(PlanMemory(jobs={number(ours): (90,)}))
    assert server.system.write_estimates({number(ours): 90}).rejected == {}
    server.run("qalter", "-l", "soft_walltime=80", others)
    (tmp_path / "site.toml").write_text(
        f'[hook]\nmode = "active"\nstate_file = "{state}"\naudit_file = ""\n'
        '[batch_system]\nadapter = "pbs"\n[plan]\nestimates = true\n'
    )
    service = settings(TOP / "deploy" / "systemd" / f"{unit}.service")["Service"]
    _, *words = shlex.split(service[key])
    command = (sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words)
    done = server.run(*command, "--config", str(tmp_path / "site.toml"))
    assert "released the plan estimates" in done.stdout
    assert (server.soft(ours), server.soft(others)) == ("", "00:01:20")
    assert not plan_path(state).exists()


def test_no_0_is_written_and_the_scheduler_lives(server: PlanningPbs) -> None:
    running, waiting = server.job(1, 600), server.job(server.processors, 600)
    server.wait_until(lambda: server.state(running) == "R", 30, "start")
    for wanted in (0, 1, 59):
        asked = dict.fromkeys((number(running), number(waiting)), wanted)
        report = server.system.write_estimates(asked)
        assert set(report.rejected) == (set() if wanted == 0 else set(asked))
        assert (server.soft(running), server.soft(waiting)) == ("", "")
    server.cycle()
    assert server.run("pgrep", "-x", "pbs_sched", check=False).returncode == 0


def test_a_walltime_that_its_user_lowers(server: PlanningPbs) -> None:
    server.qmgr("set server scheduling = False")
    job = server.job(1, 600)
    assert server.system.write_estimates({number(job): 300}).rejected == {}
    lowered = ["qalter", "-l", "walltime=120", job]
    assert server.run(*lowered, check=False, user=USER).returncode == 166
    assert server.run("qalter", "-l", "soft_walltime=", job, check=False, user=USER).returncode
    assert server.system.write_estimates({number(job): 0}).rejected == {}
    assert server.run(*lowered, check=False, user=USER).returncode == 0
    assert (
        "not below its walltime"
        in server.system.write_estimates({number(job): 300}).rejected[number(job)]
    )


def test_a_subjob_keeps_what_its_array_had(server: PlanningPbs) -> None:
    server.qmgr("set server scheduling = False")
    array = server.job(server.processors, 600, 600, "-J", "1-3")
    assert (
        "would keep it"
        in server.system.write_estimates({number(array): 60}).rejected[number(array)]
    )
    server.run("qalter", "-l", "soft_walltime=60", array)  # somebody else's
    server.cycle()
    subjob = array.replace("[]", "[1]")
    server.wait_until(lambda: server.state(subjob) == "R", 30, "start of a subjob")
    assert server.system.write_estimates({number(array): 0}).rejected == {}
    found = server.system.estimates()
    assert found[number(array)].seconds == 0
    assert found[number(subjob)].seconds == 60
    assert "arrays as a whole" in (found[number(subjob)].obstacle or "")
    report = server.system.write_estimates({number(subjob): 0})
    assert "arrays as a whole" in report.rejected[number(subjob)]


def test_jobs_alike_hide_each_other_until_the_line_resources_has_it(server: PlanningPbs) -> None:
    half = server.processors // 2
    server.busy_but_for(half)
    server.qmgr("set server scheduling = False")
    first, second = server.job(half, 900), server.job(half, 900)
    assert server.system.write_estimates({number(second): 60}).rejected == {}
    server.cycle()
    assert (server.state(first), server.state(second)) == ("Q", "Q")
    assert warned(server) == "warn"
    config = (server.files / "sched_config").read_text()
    with server.changed("sched_config", RESOURCES.sub(r'\1, soft_walltime"', config)):
        assert warned(server) == "pass"
        server.cycle()
        assert (server.state(first), server.state(second)) == ("Q", "R")


def warned(server: PlanningPbs) -> str:
    checks = server.system.estimate_checks(writes=True)
    return {check.name: check.result for check in checks}["estimates resources"]


def test_an_operator_is_told_that_he_is_no_manager(server: PlanningPbs) -> None:
    server.qmgr("set server scheduling = False")
    job = server.job(1, 600)
    with server.granted("operators", USER):
        refused = as_user(server, number(job))
        assert ChangeRejected.__name__ in refused.stderr
        assert "nobody but managers" in refused.stderr
        with server.granted("managers", USER):
            assert as_user(server, number(job)).returncode == 0
            assert server.soft(job) == "00:01:30"


def as_user(server: PlanningPbs, job: int) -> subprocess.CompletedProcess[str]:
    """Write an estimate as the user, by qalter: the interpreter itself may be root's alone."""
    program = (
        "import os, pwd, time; from slurm_rl_plugin.batch_systems.kind import AdapterParts;"
        "from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs;"
        "from slurm_rl_plugin.batch_systems.pbs.lever.writes import Qalter;"
        "system = Pbs(AdapterParts(shares={'a': 1.0}, interactive=bool, clock=time.time));"
        "from slurm_rl_plugin.batch_systems.pbs.queue.reader import PbsQueueReader;"
        "system._sender = Qalter(system.commands);"
        "system._queue = PbsQueueReader(system.commands, None);"
        "import slurm_rl_plugin.batch_systems.pbs.plan_estimates.estimates as estimates;"
        "times = estimates.read_closed_times(estimates.sched_folder(system.commands));"
        "estimates.read_closed_times = lambda folder: times;"  # only root may enter sched_priv
        f"user = pwd.getpwnam('{USER}');"
        "os.setgroups([]); os.setgid(user.pw_gid); os.setuid(user.pw_uid);"
        f"report = system.write_estimates({{{job}: 90}}); assert not report.rejected, report"
    )
    words = ["env", f"PYTHONPATH={TOP}", sys.executable, "-c", program]
    return server.run(*words, check=False)
