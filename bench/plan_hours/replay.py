"""A stretch on one batch system, in the order of the default policy, with estimates or without."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from bench.plan_hours.load import StretchJob, StretchPlan
from bench.plan_hours.machine import Closed, Machine
from bench.reserve_hours.replay import Stopped, in_time
from bench.speed.deep_queue import tell
from slurm_rl_plugin.units import HOUR
from tests.real.daemon_under_test import RunningHook, running_hook

#: Seconds between cycles at most; calls of a small machine may take half of the time.
CYCLE, BUSY_SHARE = 2.0, 0.5
#: When the reservation is made, as part of the time of submissions; it begins about the middle.
MADE = 0.3
#: Seconds that it is made ahead beyond the longest limit: some cycles.
BEYOND = 15.0
#: Jobs that are submitted at once to try `slurm-rl release`, and seconds until one has an estimate.
BURST, SOON = 150, 180.0
WRITES = ("given", "taken", "rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to run the stretch: its name, and whether the scheduler is told estimates."""

    name: str
    estimates: bool


ARMS = (Arm(name="none", estimates=False), Arm(name="estimates", estimates=True))


def replay(
    arm: Arm,
    machine: Machine,
    jobs: Sequence[StretchJob],
    plan: StretchPlan,
    folder: Path,
    stop: Event,
) -> dict[str, Any]:
    """Run it once; what became of the jobs, for JSON.

    Args:
        arm: with estimates or without.
        machine: with an empty queue.
        jobs: in order of submission.
        plan: of the stretch.
        folder: of the daemon's files.
        stop: breaks it off once it is set.

    Raises:
        Stopped: it was broken off.
    """
    with running_hook(machine, folder, "default", cycle=CYCLE, more=_lines(arm, machine)) as hook:
        numbers, closed, late = submit_stretch(arm.name, machine, jobs, plan, stop)
        tell(f"{arm.name}: all submitted, {late:.1f} s late at most")
        _until_empty(machine, hook, stop)
        writes = {each: _written(hook, each) for each in WRITES}
        time.sleep(3.0)  # accounting is told of the last ends in a bundle
        ended = machine.ended(numbers)
        released = _release(machine, hook, jobs, folder) if arm.estimates else None
        if hook.process.poll() is None:
            assert hook.stop() == 0, hook.log[-3000:]
    machine.end_all()
    return {
        "jobs": [
            asdict(job) | asdict(ended[number]) for number, job in zip(numbers, jobs, strict=True)
        ],
        "closed": asdict(closed),
        "late": late,
        "writes": writes,
        "released": released,
    }


def _lines(arm: Arm, machine: Machine) -> str:
    # what is asked is whether anybody pays, whatever the model's training gained
    plan = f"[plan]\nestimates = {str(arm.estimates).lower()}\ninsist = true\n"
    return f"busy_share = {BUSY_SHARE:g}\n{machine.lines}\n{plan}"


def submit_stretch(
    name: str, machine: Machine, jobs: Sequence[StretchJob], plan: StretchPlan, stop: Event
) -> tuple[list[int], Closed, float]:
    """Numbers in the order of the jobs, the reservation, and seconds late at most."""
    ahead = 60.0 * max(job.minutes for job in jobs) + BEYOND
    due = [job.submit for job in jobs]
    numbers, closed = list[int](), list[Closed]()

    def act(place: int) -> None:
        if not closed and due[place] >= 60.0 * MADE * plan.minutes:
            closed.append(machine.reserve(ahead))
            tell(f"{name}: reservation in {ahead:.0f} s")
        numbers.append(machine.submit(jobs[place]))

    late = in_time(name, due, act, stop)
    return numbers, closed[0], late


def _until_empty(machine: Machine, hook: RunningHook, stop: Event) -> None:
    end = time.monotonic() + HOUR
    while not machine.is_empty():
        assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"
        assert time.monotonic() < end, f"jobs are left after {HOUR:.0f} s"
        if stop.wait(1.0):
            raise Stopped


def _written(hook: RunningHook, what: str) -> int:
    series = f'slurm_rl_plan_estimate_writes_total{{what="{what}"}}'
    return int(hook.metric(series) or 0)


def _release(
    machine: Machine, hook: RunningHook, jobs: Sequence[StretchJob], folder: Path
) -> dict[str, int]:
    """Kill the daemon while an estimate stands, and release; how many stood, and how many stay."""
    for job in jobs[:BURST]:
        machine.submit(job)
    end, stood = time.monotonic() + SOON, 0
    while not stood and time.monotonic() < end:
        stood = machine.standing()
    hook.process.kill()
    hook.process.wait(timeout=10)
    stood = machine.standing()
    words = ("release", "--unattended", "--config", str(folder / "slurm-rl.toml"))
    command = (sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words)
    done = subprocess.run(
        command, env=machine.env, capture_output=True, text=True, timeout=300, check=False
    )
    left = machine.standing()
    tell(f"release: {stood} estimates stood, {left} are left, exit code {done.returncode}")
    return {"stood": stood, "left": left, "exit_code": done.returncode}
