"""The adapter on a real OpenPBS, where one is installed; `make test-pbs` asks for these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.pbs.process import Ifl, Qalter
from slurm_rl_plugin.batch_systems.pbs.queue import PbsQueueReader
from slurm_rl_plugin.batch_systems.pbs.setup import CLASS_HOOK, STALE_SECONDS, setup_steps
from slurm_rl_plugin.batch_systems.port import FactorChange, LimitKeys
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.services.hook import shipped_folder
from tests.architecture.markdown_documents import TOP
from tests.real.drawn_order import DrawnOrder, cycle_of
from tests.real.openpbs_server import InstalledPbs, pbs_adapter, set_up_server

pytestmark = pytest.mark.real

USER = "alice"
JOBS = 200
BATCH, INTERACTIVE = "rl_test_batch", "rl_test_shell"
BY_QUEUE = LimitKeys(mechanism="max_run_res", queues=(BATCH,))
ODD_SCORES = [np.nan, np.inf, -np.inf, 1e39, -1e39, 1e308, 0.0, -0.0, 5e-324]
#: Past what single precision and 64 bits of the server's hold.
FARTHEST = [2**63, -(2**63), 2**24]


@dataclass(slots=True)
class GivenScores:
    """A policy that says what it was given, sound or not."""

    scores: dict[int, float]
    name: str = "given"

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        del memory
        ids = snapshot.pending.jobs.job_id.tolist()
        return Decision(scores=np.array([self.scores[job] for job in ids], dtype=np.float64))


@pytest.fixture(scope="module")
def heartbeat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pbs") / "heartbeat"


@pytest.fixture(scope="module")
def prepared(heartbeat: Path) -> Iterator[InstalledPbs]:
    """A server after every line of `pbs-setup`, which is undone at the end."""
    steps = setup_steps("", heartbeat, None, shipped_folder("deploy/pbs"))
    plan = [step for step in steps if "one order over" not in step.does.lower()]
    with set_up_server(plan, USER) as server:
        yield server


@pytest.fixture
def server(prepared: InstalledPbs) -> Iterator[InstalledPbs]:
    """Jobs wait until a test lets them start."""
    prepared.qmgr("set server scheduling = False")
    prepared.qmgr('set server job_sort_formula = "rl_score"')
    yield prepared
    prepared.delete_all()


def whole_machine(server: InstalledPbs) -> str:
    """Jobs that need all processors start one after the other."""
    return f"ncpus={pbs_adapter(server, USER).snapshot().capacity}"


def test_users_can_neither_set_nor_see_the_score(server: InstalledPbs) -> None:
    name = server.submit(user=USER)
    assert server.run("qalter", "-l", "rl_score=5", name, user=USER, check=False).returncode != 0
    for value in ("5", "nan"):
        # with a hook that sets the score PBS takes the words of the user, and the hook's number
        other = server.submit("-l", f"rl_score={value}", user=USER)
        assert "rl_score = 1000" in server.run("qstat", "-f", other).stdout
    server.qmgr(f"set hook {CLASS_HOOK} enabled = False")
    try:
        words = ["qsub", "-l", "rl_score=5", "--", "/bin/true"]
        assert server.run(*words, user=USER, check=False).returncode != 0
    finally:
        server.qmgr(f"set hook {CLASS_HOOK} enabled = True")
    assert "rl_score" not in server.run("qstat", "-f", name, user=USER).stdout
    assert "rl_score" in server.run("qstat", "-f", name).stdout
    checks = {check.name: check.result for check in pbs_adapter(server, USER).own_checks()}
    assert checks["resource"] == checks["dead man"] == checks["default score"] == "pass"


@pytest.mark.parametrize("sender", [Ifl, Qalter])
def test_scores_are_written_read_back_and_cleared(server: InstalledPbs, sender: type) -> None:
    names = [server.submit(user=USER) for _ in range(3)]
    jobs = [job_number(name) or 0 for name in names]
    system = pbs_adapter(server, USER)
    assert isinstance(system._sender, Ifl), "the installation has no libpbs.so"
    if sender is Qalter:
        system._sender = Qalter(system.commands)
        system._queue = PbsQueueReader(system.commands, None)
    wanted = {jobs[0]: 5, jobs[1]: 2**24 - 1000, jobs[2]: -999}
    report = system.apply([FactorChange(job_id=j, old=0, new=f) for j, f in wanted.items()])
    assert report.rejected == {}
    pending = system.snapshot().pending
    found = dict(zip(pending.jobs.job_id.tolist(), pending.factor.tolist(), strict=True))
    assert found == wanted
    assert system.release().rejected == {}
    assert set(system.snapshot().pending.factor.tolist()) == {0}


def test_a_score_that_is_not_finite_is_mended(server: InstalledPbs) -> None:
    name = server.submit(user=USER)
    server.run("qalter", "-l", "rl_score=nan", name)
    system = pbs_adapter(server, USER)
    assert system.snapshot().pending.factor.tolist() == [-1000]
    assert system.release().rejected == {}
    assert system.snapshot().pending.factor.tolist() == [0]


def test_no_number_makes_a_score_that_is_not_finite(server: InstalledPbs, tmp_path: Path) -> None:
    """Whatever a policy says, and whatever a hook is asked to write."""
    names = [server.submit(user=USER) for _ in range(len(ODD_SCORES))]
    jobs = [job_number(name) or 0 for name in names]
    system = pbs_adapter(server, USER)
    scores = np.array(ODD_SCORES)
    policy = GivenScores(dict(zip(jobs, scores.tolist(), strict=True)))
    report = cycle_of(system, policy, tmp_path).run()
    assert report.mode == "fallback"
    written = [
        FactorChange(job_id=job, old=0, new=new)
        for job, new in zip(jobs, FARTHEST * 3, strict=True)
    ]
    system.apply(written)
    told = server.run("qstat", "-f", *names).stdout
    found = [float(word) for word in re.findall(r"rl_score = (\S+)", told)]
    assert len(found) == len(names)
    assert all(1 <= score <= 2**24 for score in found), found
    assert np.isfinite(system.server().default_score or np.nan)


def test_jobs_start_in_the_decided_order(server: InstalledPbs, tmp_path: Path) -> None:
    need = whole_machine(server)
    names = [server.submit("-l", need, user=USER) for _ in range(JOBS)]
    policy = DrawnOrder(seed=1)
    report = cycle_of(pbs_adapter(server, USER), policy, tmp_path).run()
    assert report.succeeded, report.failure_reason
    assert len(report.order) == JOBS
    server.qmgr("set server scheduling = True")
    server.wait_until(lambda: not server.run("qselect").stdout, 900, "empty queue")
    started = [job_number(name) for name in server.started() if name in set(names)]
    assert len(started) == JOBS
    scores = [policy.scores[job] for job in started if job is not None]
    assert [pair for pair in combinations(scores, 2) if pair[0] < pair[1]] == []


def test_batch_is_limited_interactive_starts_and_release_restores(
    server: InstalledPbs, tmp_path: Path
) -> None:
    record = tmp_path / "state.json.limits"
    server.create_queues(BATCH, INTERACTIVE)
    try:
        server.qmgr(f"set queue {BATCH} max_run_res.ncpus = [u:{USER}=64]")  # of the site's own
        own = server.qmgr(f"list queue {BATCH} max_run_res")
        server.qmgr("set server scheduling = True")
        running = server.submit("-q", BATCH, "-l", "ncpus=1", user=USER, seconds=120)
        server.wait_until(lambda: server.state(running) == "R", 60, "start")
        system = pbs_adapter(server, USER, limit=BY_QUEUE, limits_file=record)
        assert system.snapshot().capacity > 1, "this test needs two processors"
        system.limit_batch({"cpus": 1})
        waiting = server.submit("-q", BATCH, "-l", "ncpus=1", user=USER, seconds=120)
        shell = server.submit("-q", INTERACTIVE, "-l", "ncpus=1", user=USER, seconds=0.1)
        server.wait_until(lambda: server.state(shell) != "Q", 60, "start of the interactive job")
        comment = "would exceed"
        server.wait_until(
            lambda: comment in server.run("qstat", "-f", waiting).stdout, 60, "word of the limit"
        )
        assert (server.state(running), server.state(waiting)) == ("R", "Q")
        # a process that knows of it by its record alone takes it back
        pbs_adapter(server, USER, limits_file=record).limit_batch(None)
        assert server.qmgr(f"list queue {BATCH} max_run_res") == own
        server.wait_until(lambda: server.state(waiting) == "R", 60, "start after the release")
        assert server.state(running) == "R"
        assert not record.exists()
    finally:
        server.delete_all()
        server.delete_queues(BATCH, INTERACTIVE)


def test_a_user_without_the_right_is_told_so(server: InstalledPbs) -> None:
    server.create_queues(BATCH)
    program = (
        "import os, pathlib, pwd, tempfile;"
        "from slurm_rl_plugin.batch_systems.pbs.batch_limit import PbsBatchLimit;"
        "from slurm_rl_plugin.batch_systems.port import LimitKeys;"
        "from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands;"
        f"user = pwd.getpwnam('{USER}');"  # the interpreter itself may be root's alone
        "os.setgroups([]); os.setgid(user.pw_gid); os.setuid(user.pw_uid);"
        f"keys = LimitKeys(mechanism='max_run_res', queues=('{BATCH}',));"
        "commands = PbsCommands(timeout=30.0);"
        "record = pathlib.Path(tempfile.mkdtemp(), 'limits');"
        "PbsBatchLimit(commands, keys, record).set({'cpus': 1})"
    )
    words = ["env", f"PYTHONPATH={TOP}", sys.executable, "-c", program]
    try:
        refused = server.run(*words, check=False)
        assert "ChangeRejected" in refused.stderr
        assert "operator" in refused.stderr
        with server.granted("operators", USER):
            assert server.run(*words, check=False).returncode == 0
            assert "PBS_ALL=1" in server.qmgr(f"list queue {BATCH} max_run_res")
    finally:
        server.qmgr(f"delete queue {BATCH}")


def test_starts_and_ends_are_told(server: InstalledPbs) -> None:
    name = server.submit(user=USER, seconds=1)
    system = pbs_adapter(server, USER)
    assert len(system.snapshot().started) == 0
    server.qmgr("set server scheduling = True")
    server.wait_until(lambda: not server.run("qselect").stdout, 60, "end of the job")
    snapshot = system.snapshot()
    assert snapshot.started.jobs.job_id.tolist() == [job_number(name)]
    assert snapshot.ended.jobs.job_id.tolist() == [job_number(name)]
    assert 0 <= snapshot.ended.end[0] - snapshot.ended.start[0] < 30
    assert abs(snapshot.ended.end[0] - snapshot.now) < 60


def test_a_killed_daemon_gives_the_formula_back(server: InstalledPbs, heartbeat: Path) -> None:
    server.submit(user=USER)
    folder = heartbeat.parent
    configuration = folder / "slurm-rl.toml"
    configuration.write_text(
        f'[hook]\nmode = "active"\nstate_file = "{folder}/state.json"\n'
        f'audit_file = ""\ndisable_file = ""\n[batch_system]\nadapter = "pbs"\n'
        '[policy]\nmodel = "sjf"\n[metrics]\nport = 0\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_rl_plugin.cli.entry", "run", "--config", str(configuration)],
        env={**server.env, "PYTHONPATH": str(TOP)},
        stderr=subprocess.DEVNULL,
    )
    server.wait_until(heartbeat.exists, 30, "heartbeat")
    process.kill()
    process.wait()
    old = time.time() - STALE_SECONDS - 10  # noqa: TID251
    os.utime(heartbeat, (old, old))
    server.wait_until(
        lambda: pbs_adapter(server, USER).server().formula == "", 60, "formula taken back"
    )
    assert "does not contain" in str(pbs_adapter(server, USER).facts().harm)
