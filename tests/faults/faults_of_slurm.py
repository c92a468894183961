"""Slurm's daemons killed, stopped and restarted, around a write of ours and at any time."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from tests.faults.daemon_beside import TIMEOUT
from tests.faults.fault import UNREACHABLE, Fault, Sign
from tests.faults.scene import Scene
from tests.faults.tampered_commands import AFTER, AMID, BEFORE

_WHEN = {"before": BEFORE, "amid": AMID, "after": AFTER}
#: What the log says of a call that Slurm does not answer.
_NO_ANSWER = "cycle=failed failure=batch_system"


def _at_a_write(when: int, number: signal.Signals, scene: Scene) -> None:
    """Send slurmctld a signal around the next burst of changes."""
    kill = f"kill -{number.value} {scene.cluster.pid('slurmctld')}; sleep 0.2"
    scene.commands.at_the_next_write(when, kill)
    scene.wait_until(lambda: scene.commands.written, 60, "a write")


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


def _killed(daemon: str, scene: Scene) -> None:
    scene.cluster.kill(daemon)


def _back(daemon: str, scene: Scene) -> None:
    scene.cluster.restart(daemon)


def _database_back(scene: Scene) -> None:
    """slurmdbd ends itself where its database is gone for long."""
    scene.cluster.restart("mariadbd")
    scene.cluster.restart("slurmdbd")


def _terminated(scene: Scene) -> None:
    scene.cluster.kill("slurmctld", signal.SIGTERM)


_ACCOUNTING = Sign('slurm_rl_disturbances_total{reason="accounting_behind"}')
FAULTS_OF_SLURM = (
    *_around_writes(),
    Fault(
        name="slurmctld restarted with its state",
        begin=_terminated,
        end=lambda scene: _back("slurmctld", scene),
        sign=UNREACHABLE,
        log=_NO_ANSWER,
        after_save=True,
    ),
    Fault(
        name="slurmctld restarted without its state",
        begin=_terminated,
        end=_without_state,
        sign=UNREACHABLE,
        log=_NO_ANSWER,
        forgets_jobs=True,
    ),
    Fault(
        name="slurmdbd gone",
        begin=lambda scene: _killed("slurmdbd", scene),
        end=lambda scene: _back("slurmdbd", scene),
        sign=_ACCOUNTING,
        log="disturbance=accounting_behind",
    ),
    Fault(
        name="MariaDB gone",
        begin=lambda scene: _killed("mariadbd", scene),
        end=_database_back,
        sign=_ACCOUNTING,
        log="disturbance=accounting_behind",
    ),
    Fault(
        name="munge gone",
        begin=lambda scene: _killed("munged", scene),
        end=lambda scene: _back("munged", scene),
        sign=UNREACHABLE,
        log=_NO_ANSWER,
        reruns_jobs=True,
        slack=TIMEOUT,
    ),
)
