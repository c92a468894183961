"""Every fault of the campaign, in the order of the table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tests.bench.faults.drowsy_hook import SLEEP
from tests.bench.faults.faults_of_files import FAULTS_OF_FILES
from tests.bench.faults.jobs_under_fault import PENDING
from tests.bench.faults.scene import (
    AFTER,
    AMID,
    BEFORE,
    FALLS_BACK,
    RESTLESS,
    TIMEOUT,
    UNREACHABLE,
    DaemonBeside,
    Fault,
    Scene,
    Sign,
)
from tests.bench.faults.set_clock import JUMP, set_clock

_NO_ANSWER = "cycle=failed failure=batch_system"
_GARBAGE = "head -c 4000 /dev/urandom; head -c 400 /dev/urandom >&2"
#: Reads all, does nothing, and says that each change failed; the exit status says that all is well.
_LIES = """[ $# -gt 0 ] && exec {real} "$@"
while read -r word job rest; do
    echo "slurm_update error: Unspecified error for job ${{job#jobid=}}" >&2
done
exit 0"""
#: Reads all, does nothing, says nothing.
_PRETENDS = """[ $# -gt 0 ] && exec {real} "$@"
cat >/dev/null
exit 0"""
#: Half of what squeue says, as by a broken pipe, and an exit status that says that all is well.
_HALF = '{real} "$@" | head -c 700'


def _replaced(command: str, script: str, scene: Scene) -> None:
    real = scene.commands.real(command)
    scene.commands.replace(command, script.format(real=real) if "{real}" in script else script)
    scene.jobs.submit(2)


def _mended(scene: Scene) -> None:
    scene.commands.mend()


def _jobs_change(scene: Scene) -> None:
    """Just before a write: one is held, one cancelled, one requeued, and an array is split."""
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


def _by(command: str, script: str, name: str, sign: Sign, log: str, slack: float = 0.0) -> Fault:
    """The daemon's calls of a command run a script instead."""
    return Fault(
        name=f"{command} {name}",
        begin=lambda scene: _replaced(command, script, scene),
        end=_mended,
        sign=sign,
        log=log,
        slack=slack,
    )


_REJECTED = Sign('slurm_rl_adjustments_suppressed_total{reason="rejected"}')
_CHANGED = Sign('slurm_rl_disturbances_total{reason="factor_changed"}')
_SILENT = "scontrol gave no answer within"
FAULTS_OF_COMMANDS = (
    _by("scontrol", "exec sleep 1000", "hangs", UNREACHABLE, _SILENT, TIMEOUT),
    _by("scontrol", _LIES, "says rc 0 with errors", _REJECTED, "rejected="),
    _by("scontrol", _PRETENDS, "pretends to write", _CHANGED, "disturbance=factor_changed"),
    _by("scontrol", f"cat >/dev/null; {_GARBAGE}", "prints garbage", UNREACHABLE, _NO_ANSWER),
    _by("squeue", _GARBAGE, "prints garbage", UNREACHABLE, _NO_ANSWER),
    _by("squeue", _HALF, "ends in mid-line", UNREACHABLE, _NO_ANSWER),
    _by("sprio", _GARBAGE, "prints garbage", UNREACHABLE, _NO_ANSWER),
    Fault(
        name="jobs end, requeue, split and are held between read and write",
        begin=_jobs_change,
        end=_no_longer_change,
        sign=_REJECTED,
        log="rejected=",
    ),
)


_WHEN = {"before": BEFORE, "amid": AMID, "after": AFTER}
#: What the log says of a call that Slurm does not answer.


def _at_a_write(when: int, number: signal.Signals, scene: Scene) -> None:
    """Send slurmctld a signal around the next burst of changes."""
    kill = f"kill -{number.value} {scene.cluster.pid('slurmctld')}; sleep 0.2"
    scene.commands.at_the_next_write(when, kill)
    scene.cluster.wait_until(lambda: scene.commands.written, 60, "a write")


def _restarted(scene: Scene) -> None:
    scene.commands.mend()
    scene.cluster.restart("slurmctld")


def _continued(scene: Scene) -> None:
    scene.commands.mend()
    scene.cluster.kill("slurmctld", signal.SIGCONT)


def _around_writes() -> Iterator[Fault]:
    for word, when in _WHEN.items():
        yield Fault(
            name=f"slurmctld killed {word} the writes",
            begin=lambda scene, when=when: _at_a_write(when, signal.SIGKILL, scene),  # type: ignore[misc]
            end=_restarted,
            sign=UNREACHABLE,
            log=_NO_ANSWER,
            after_save=True,
        )
        yield Fault(
            name=f"slurmctld stopped {word} the writes",
            begin=lambda scene, when=when: _at_a_write(when, signal.SIGSTOP, scene),  # type: ignore[misc]
            end=_continued,
            sign=UNREACHABLE,
            log=_NO_ANSWER,
            slack=TIMEOUT,
        )


def _without_state(scene: Scene) -> None:
    """Slurm forgets every job; the numbers of new ones begin at 1 again."""
    scene.cluster.restart("slurmctld", "-c")
    scene.jobs.forget_all()
    scene.jobs.submit(8)


def _back(daemon: str, scene: Scene) -> None:
    scene.cluster.restart(daemon)


def _database_back(scene: Scene) -> None:
    """slurmdbd ends itself where its database is gone for long."""
    scene.cluster.restart("mariadbd")
    scene.cluster.restart("slurmdbd")


def _terminated(scene: Scene) -> None:
    scene.cluster.kill("slurmctld", signal.SIGTERM)


def _gone(
    name: str,
    daemon: str,
    sign: Sign,
    log: str,
    end: Callable[[Scene], None] | None = None,
    **more: Any,
) -> Fault:
    """A daemon is killed, and started again at the end."""
    return Fault(
        name=f"{name} gone",
        begin=lambda scene: scene.cluster.kill(daemon),
        end=end or (lambda scene: _back(daemon, scene)),
        sign=sign,
        log=log,
        **more,
    )


def _restarts(name: str, end: Callable[[Scene], None], **more: Any) -> Fault:
    """slurmctld is stopped as an administrator does, and started again."""
    return Fault(
        name=f"slurmctld restarted {name}",
        begin=_terminated,
        end=end,
        sign=UNREACHABLE,
        log=_NO_ANSWER,
        **more,
    )


_ACCOUNTING = Sign('slurm_rl_disturbances_total{reason="accounting_behind"}')
_BEHIND = "disturbance=accounting_behind"
FAULTS_OF_SLURM = (
    *_around_writes(),
    _restarts("with its state", lambda scene: _back("slurmctld", scene), after_save=True),
    _restarts("without its state", _without_state, forgets_jobs=True),
    _gone("slurmdbd", "slurmdbd", _ACCOUNTING, _BEHIND),
    _gone("MariaDB", "mariadbd", _ACCOUNTING, _BEHIND, end=_database_back),
    _gone("munge", "munged", UNREACHABLE, _NO_ANSWER, reruns_jobs=True, slack=TIMEOUT),
)


#: How often the daemon is killed.
KILLS = int(os.environ.get("SLURM_RL_KILLS", "100"))
_SHIFTED = "tests.bench.faults.set_clock"
#: An account that owns nothing.
_STRANGER = 61002
_DROWSY = "tests.bench.faults.drowsy_hook"


def _kill(scene: Scene) -> None:
    scene.daemon.kill()


def _start(scene: Scene) -> None:
    if not scene.daemon.runs:
        scene.daemon.start()


def _kill_often(scene: Scene) -> None:
    """At random moments, started again each time as systemd does; the last time it stays dead."""
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


def _wake(scene: Scene) -> None:
    Path(os.environ[SLEEP]).unlink(missing_ok=True)


def _same_files(scene: Scene) -> None:
    """A second one with the same configuration."""
    words = ("-m", "slurm_rl_plugin.cli.entry", "run", "--config")
    done = subprocess.run(
        [sys.executable, *words, str(scene.daemon.folder / "slurm-rl.toml")],
        env={**scene.cluster.env, "PATH": scene.daemon.path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    scene.daemon.other_log.write_text(done.stderr)


def _stranger_locks(scene: Scene) -> None:
    """While no daemon runs, a user who has no business there locks every file that he may open."""
    if scene.daemon.runs:
        scene.daemon.kill()
    locks = 'for file in * .[!.]*; do flock -n -x "$file" sleep 600 & done; wait'
    stranger = subprocess.Popen(
        [
            *("setpriv", f"--reuid={_STRANGER}", f"--regid={_STRANGER}", "--clear-groups"),
            *("sh", "-c", locks),
        ],
        cwd=scene.daemon.files,  # the way there may be root's
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
    """A second one that knows nothing of the first."""
    folder = scene.daemon.folder / "second"
    second = DaemonBeside(
        cluster=scene.cluster,
        folder=folder,
        path=scene.daemon.path,
        program=RESTLESS,
        model="sjf",
        more="",
        stack=scene.stack.enter_context(ExitStack()),
    )
    second.files.mkdir(parents=True, exist_ok=True)
    second.start()
    scene.others.append(second)
    scene.jobs.submit(12)  # for both to order


def _second_leaves(scene: Scene) -> None:
    while scene.others:
        second = scene.others.pop()
        code = second.stop()
        assert code == 0, second.log[-2000:]


def _dies(name: str, begin: Callable[[Scene], None], patience: float) -> Fault:
    """The daemon is killed, and started again at the end."""
    return Fault(
        name=name,
        begin=begin,
        end=_start,
        counts_end=True,
        sign=Sign(""),
        log="disturbance=found_factors",
        patience=patience,
        slack=3.0,
    )


def _clock_jumps(name: str, seconds: float) -> Fault:
    """The clock of the whole site is set, and set back at the end."""
    return Fault(
        name=f"clock jumps {name}",
        clock=True,
        program=_SHIFTED,
        begin=lambda scene: set_clock(scene.daemon.folder, seconds),
        end=lambda scene: set_clock(scene.daemon.folder, 0.0),
        sign=Sign('slurm_rl_disturbances_total{reason="clock"}'),
        log="disturbance=clock",
    )


FAULTS_OF_THE_DAEMON = (
    _dies("daemon killed", _kill, patience=3.0),
    _dies("daemon killed again and again", _kill_often, patience=900.0),
    Fault(
        name="inference sleeps",
        program=_DROWSY,
        begin=_sleep,
        end=_wake,
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
    Fault(
        name="two daemons with files of their own",
        begin=_own_files,
        end=_second_leaves,
        sign=Sign('slurm_rl_disturbances_total{reason="factor_changed"}'),
        log="disturbance=factor_changed",
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
    """The fault of that name.

    Raises:
        KeyError: there is none.
    """
    return {fault.name: fault for fault in FAULTS}[name]
