"""Every fault of the campaign, in the order of the table."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tests.bench.faults.faults_of_files import FAULTS_OF_FILES, start_again
from tests.bench.faults.jobs_under_fault import PENDING
from tests.bench.faults.scene import (
    AFTER,
    AMID,
    BEFORE,
    FALLS_BACK,
    JUMP,
    RESTLESS,
    TIMEOUT,
    UNREACHABLE,
    DaemonBeside,
    Fault,
    Scene,
    Sign,
    set_clock,
)
from tests.real.restless_hook import SLEEP

_NO_ANSWER = "cycle=failed failure=batch_system"
_REJECTED = Sign('slurm_rl_adjustments_suppressed_total{reason="rejected"}')
_GARBAGE = "head -c 4000 /dev/urandom; head -c 400 /dev/urandom >&2"
#: Reads all changes, makes none and reports that each failed, but exits with 0.
_LIES = """[ $# -gt 0 ] && exec {real} "$@"
while read -r word job rest; do
    echo "slurm_update error: Unspecified error for job ${{job#jobid=}}" >&2
done
exit 0"""
#: Reads all changes, makes none and reports nothing.
_PRETENDS = """[ $# -gt 0 ] && exec {real} "$@"
cat >/dev/null
exit 0"""
#: The first half of squeue's output, as from a broken pipe, with exit status 0.
_HALF = '{real} "$@" | head -c 700'
#: How often the daemon is killed.
KILLS = int(os.environ.get("SLURM_RL_KILLS", "100"))
#: User id of an account that owns nothing.
_STRANGER = 61002


def disturbance(reason: str, name: str, **more: Any) -> Fault:
    """A fault that shows as a disturbance."""
    sign = Sign(f'slurm_rl_disturbances_total{{reason="{reason}"}}')
    return Fault(name=name, sign=sign, log=f"disturbance={reason}", **more)


def unreachable(name: str, **more: Any) -> Fault:
    """A fault that fails cycles, since Slurm does not answer."""
    return Fault(name=name, sign=UNREACHABLE, log=more.pop("log", _NO_ANSWER), **more)


def _by(command: str, script: str) -> dict[str, Callable[[Scene], object]]:
    """The daemon's calls of a command run a script instead."""

    def begin(scene: Scene) -> None:
        real = scene.commands.real(command)
        text = script.format(real=real) if "{real}" in script else script
        scene.commands.replace(command, text)
        scene.jobs.submit(2)

    return {"begin": begin, "end": lambda scene: scene.commands.mend()}


def _jobs_change(scene: Scene) -> None:
    """Before a write one job is held, one cancelled, one requeued, and an array is split."""
    jobs, seen = scene.jobs, scene.jobs.seen()
    held, cancelled = jobs.submit(2)
    array = jobs.submit_array()
    running = [
        each.job for each in seen.values() if each.state == "RUNNING" and "_" not in each.job
    ]
    jobs.held_by_users.add(held)
    jobs.cancelled.add(cancelled)
    jobs.requeued |= set(running[:1])
    real = scene.commands.real("scontrol")
    scene.commands.at_the_next_write(
        BEFORE,
        f"{real} hold {held}",
        f"scancel {cancelled}",
        *(f"{real} requeue {job}" for job in running[:1]),
        f"{real} update jobid={array}_2 timelimit=77",
    )
    jobs.submit(2)
    scene.cluster.wait_until(lambda: scene.commands.written, 60, "a write")


def _no_longer_change(scene: Scene) -> None:
    scene.commands.mend()
    for job in (each.job for each in scene.jobs.seen().values() if each.state == PENDING):
        if job in scene.jobs.requeued:
            scene.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)


FAULTS_OF_COMMANDS = (
    unreachable(
        "scontrol hangs",
        log="scontrol gave no answer within",
        slack=TIMEOUT,
        **_by("scontrol", "exec sleep 1000"),
    ),
    Fault(
        name="scontrol says rc 0 with errors",
        sign=_REJECTED,
        log="rejected=",
        **_by("scontrol", _LIES),
    ),
    disturbance("factor_changed", "scontrol pretends to write", **_by("scontrol", _PRETENDS)),
    unreachable("scontrol prints garbage", **_by("scontrol", f"cat >/dev/null; {_GARBAGE}")),
    unreachable("squeue prints garbage", **_by("squeue", _GARBAGE)),
    unreachable("squeue ends in mid-line", **_by("squeue", _HALF)),
    unreachable("sprio prints garbage", **_by("sprio", _GARBAGE)),
    Fault(
        name="jobs end, requeue, split and are held between read and write",
        begin=_jobs_change,
        end=_no_longer_change,
        sign=_REJECTED,
        log="rejected=",
    ),
)


def _at_a_write(when: int, number: signal.Signals) -> Callable[[Scene], None]:
    """Sends slurmctld a signal at the next write of factors."""

    def begin(scene: Scene) -> None:
        kill = f"kill -{number.value} {scene.cluster.pid('slurmctld')}; sleep 0.2"
        scene.commands.at_the_next_write(when, kill)
        scene.cluster.wait_until(lambda: scene.commands.written, 60, "a write")

    return begin


def _restarted(scene: Scene) -> None:
    scene.commands.mend()
    scene.cluster.restart("slurmctld")


def _continued(scene: Scene) -> None:
    scene.commands.mend()
    scene.cluster.kill("slurmctld", signal.SIGCONT)


def _without_state(scene: Scene) -> None:
    """Slurm forgets every job; numbers of new jobs start at 1 again."""
    scene.cluster.restart("slurmctld", "-c")
    scene.jobs.forget_all()
    scene.jobs.submit(8)


def _database_back(scene: Scene) -> None:
    """Restarts slurmdbd too, which ends if its database is gone for long."""
    scene.cluster.restart("mariadbd")
    scene.cluster.restart("slurmdbd")


def _gone(daemon: str, end: Callable[[Scene], None] | None = None) -> dict[str, Any]:
    """A daemon is killed, and started again at the end."""
    return {
        "begin": lambda scene: scene.cluster.kill(daemon),
        "end": end or (lambda scene: scene.cluster.restart(daemon)),
    }


def _terminated(scene: Scene) -> None:
    scene.cluster.kill("slurmctld", signal.SIGTERM)


FAULTS_OF_SLURM = (
    *(
        fault
        for word, when in (("before", BEFORE), ("amid", AMID), ("after", AFTER))
        for fault in (
            unreachable(
                f"slurmctld killed {word} the writes",
                begin=_at_a_write(when, signal.SIGKILL),
                end=_restarted,
                after_save=True,
            ),
            unreachable(
                f"slurmctld stopped {word} the writes",
                begin=_at_a_write(when, signal.SIGSTOP),
                end=_continued,
                slack=TIMEOUT,
            ),
        )
    ),
    unreachable(
        "slurmctld restarted with its state", begin=_terminated, end=_restarted, after_save=True
    ),
    unreachable(
        "slurmctld restarted without its state",
        begin=_terminated,
        end=_without_state,
        forgets_jobs=True,
    ),
    disturbance("accounting_behind", "slurmdbd gone", **_gone("slurmdbd")),
    disturbance("accounting_behind", "MariaDB gone", **_gone("mariadbd", _database_back)),
    unreachable("munge gone", reruns_jobs=True, slack=TIMEOUT, **_gone("munged")),
)


def _kill_often(scene: Scene) -> None:
    """Kills the daemon at random times and starts it each time; it stays dead after the last."""
    marked = scene.daemon.folder / "killed-often"
    for kill in range(1 if marked.exists() else KILLS):
        if kill:
            scene.daemon.start()
            if kill % 3 == 0:
                scene.jobs.submit(2)
        time.sleep(scene.rng.uniform(0.0, 1.5))
        scene.daemon.kill()
    marked.touch()


def _sleep(scene: Scene) -> None:
    Path(os.environ[SLEEP]).write_text("2.5")
    scene.jobs.submit(2)


def _same_files(scene: Scene) -> None:
    """Starts a second daemon with the same configuration."""
    done = scene.cluster.slurm_rl("run", folder=scene.daemon.folder)
    assert done.returncode == 2, done.stderr
    scene.daemon.other_log.write_text(done.stderr)


def _stranger_locks(scene: Scene) -> None:
    """While no daemon runs, an unrelated user locks every file that he may open."""
    if scene.daemon.runs:
        scene.daemon.kill()
    locks = 'for file in * .[!.]*; do flock -n -x "$file" sleep 600 & done; wait'
    stranger = subprocess.Popen(
        [
            *("setpriv", f"--reuid={_STRANGER}", f"--regid={_STRANGER}", "--clear-groups"),
            *("sh", "-c", locks),
        ],
        cwd=scene.daemon.files,  # the folders above may be root's
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (scene.daemon.folder / "stranger").write_text(str(stranger.pid))
    scene.stack.callback(_stranger_leaves, scene)
    time.sleep(0.5)
    scene.daemon.start()


def _stranger_leaves(scene: Scene) -> None:
    path = scene.daemon.folder / "stranger"
    if path.exists():
        with suppress(ProcessLookupError):
            os.killpg(int(path.read_text()), signal.SIGKILL)
        path.unlink()


def _own_files(scene: Scene) -> None:
    """Starts a second daemon with files of its own."""
    second = DaemonBeside(
        cluster=scene.cluster,
        folder=scene.daemon.folder / "second",
        path=scene.daemon.path,
        program=RESTLESS,
        model="sjf",
        stack=scene.stack.enter_context(ExitStack()),
    )
    second.files.mkdir(parents=True, exist_ok=True)
    second.start()
    scene.others.append(second)
    scene.jobs.submit(12)  # for both to order


def _second_leaves(scene: Scene) -> None:
    while scene.others:
        second = scene.others.pop()
        assert second.hook.stop() == 0, second.log[-2000:]


def _dies(name: str, begin: Callable[[Scene], None], patience: float) -> Fault:
    """The daemon is killed, and started again at the end."""
    return Fault(
        name=name,
        begin=begin,
        end=start_again,
        counts_end=True,
        sign=Sign(""),
        log="disturbance=found_factors",
        patience=patience,
        slack=3.0,
    )


def _clock_jumps(name: str, seconds: float) -> Fault:
    """The clock of the whole site is set, and set back at the end."""
    return disturbance(
        "clock",
        f"clock jumps {name}",
        clock=True,
        begin=lambda scene: set_clock(scene.daemon.folder, seconds),
        end=lambda scene: set_clock(scene.daemon.folder, 0.0),
    )


FAULTS_OF_THE_DAEMON = (
    _dies("daemon killed", lambda scene: scene.daemon.kill(), patience=3.0),
    _dies("daemon killed again and again", _kill_often, patience=900.0),
    Fault(
        name="inference sleeps",
        begin=_sleep,
        end=lambda scene: Path(os.environ[SLEEP]).unlink(missing_ok=True),
        sign=FALLS_BACK,
        log="fallback=yes reason=the policy took",
        slack=2.5,
    ),
    Fault(
        name="two daemons on the same files",
        begin=_same_files,
        sign=Sign("slurm_rl_up", 1.0, stays=True),
        log="another slurm-rl run holds",
    ),
    Fault(
        name="lock held by a stranger",
        begin=_stranger_locks,
        end=_stranger_leaves,
        sign=Sign("slurm_rl_up", 1.0, stays=True),
        log="disturbance=found_factors",
    ),
    disturbance(
        "factor_changed",
        "two daemons with files of their own",
        begin=_own_files,
        end=_second_leaves,
        slack=2.0,
    ),
    _clock_jumps("forward", JUMP),
    _clock_jumps("back", -JUMP),
)
FAULTS: tuple[Fault, ...] = (
    *FAULTS_OF_SLURM,
    *FAULTS_OF_COMMANDS,
    *FAULTS_OF_FILES,
    *FAULTS_OF_THE_DAEMON,
)


def fault_named(name: str) -> Fault:
    """The fault of that name."""
    return {fault.name: fault for fault in FAULTS}[name]
