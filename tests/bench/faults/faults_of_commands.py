"""Slurm's commands that hang, lie or print garbage; and jobs that change between read and write."""

from __future__ import annotations

from tests.bench.faults.daemon_beside import TIMEOUT
from tests.bench.faults.fault import UNREACHABLE, Fault, Sign
from tests.bench.faults.job_outcomes import PENDING
from tests.bench.faults.scene import Scene
from tests.bench.faults.tampered_commands import BEFORE

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
