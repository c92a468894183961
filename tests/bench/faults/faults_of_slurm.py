"""Slurm's daemons killed, stopped and restarted, around a write of ours and at any time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

from tests.bench.faults.daemon_beside import TIMEOUT
from tests.bench.faults.fault import UNREACHABLE, Fault, Sign
from tests.bench.faults.scene import Scene
from tests.bench.faults.tampered_commands import AFTER, AMID, BEFORE

_WHEN = {"before": BEFORE, "amid": AMID, "after": AFTER}
#: What the log says of a call that Slurm does not answer.
_NO_ANSWER = "cycle=failed failure=batch_system"


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
