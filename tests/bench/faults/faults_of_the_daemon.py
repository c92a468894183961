"""The daemon killed, doubled, slow in its decisions, and with a clock that jumps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.bench.faults.daemon_beside import DaemonBeside
from tests.bench.faults.drowsy_hook import SLEEP
from tests.bench.faults.fault import FALLS_BACK, RESTLESS, Fault, Sign
from tests.bench.faults.scene import Scene
from tests.bench.faults.set_clock import JUMP, set_clock

#: How often the daemon is killed.
KILLS = int(os.environ.get("SLURM_RL_KILLS", "100"))
_SHIFTED = "tests.bench.faults.shifted_hook"
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
