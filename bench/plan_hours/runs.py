"""Both arms of a stretch, on clusters side by side or one after the other; what has run is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from bench.plan_hours.load import StretchJob, StretchPlan
from bench.plan_hours.machine import Machine
from bench.plan_hours.replay import ARMS, Arm, replay
from bench.plan_hours.slurm_machine import SlurmMachine, cluster_plan
from bench.speed.deep_queue import tell
from slurm_rl_plugin.whole_file import write_whole
from tests.real.conftest import running_slurm
from tests.real.slurm_releases import RELEASES

Start = Callable[[], AbstractContextManager[Machine]]


def slurm_of(release: str, plan: StretchPlan) -> Start:
    """Starts a private Slurm of this release."""

    @contextmanager
    def start() -> Iterator[Machine]:
        with running_slurm(cluster_plan(plan.processors), RELEASES[release]) as cluster:
            yield SlurmMachine(cluster)

    return start


def run_arms(
    start: Start, jobs: Sequence[StretchJob], plan: StretchPlan, folder: Path, *, at_once: int
) -> dict[str, dict[str, Any]]:
    """Name of an arm -> what became of the jobs; kept ones of the same jobs are read.

    Args:
        start: starts a machine.
        jobs: in order of submission.
        plan: of the stretch.
        folder: of a file for each arm.
        at_once: arms that run beside each other, so that they share what disturbs them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = Event()
    missing = [arm for arm in ARMS if _kept(folder, arm, jobs) is None]
    with ThreadPoolExecutor(at_once) as pool:
        try:
            list(pool.map(lambda arm: _run(arm, start, jobs, plan, folder, stop), missing))
        except BaseException:  # Ctrl-C and SIGTERM too: the clusters go, and then we
            stop.set()
            raise
    return {arm.name: _kept(folder, arm, jobs) or {} for arm in ARMS}


def _run(
    arm: Arm, start: Start, jobs: Sequence[StretchJob], plan: StretchPlan, folder: Path, stop: Event
) -> None:
    if stop.is_set():
        return
    own = folder.resolve() / arm.name  # the daemon's files stay, for whoever wants to know more
    shutil.rmtree(own, ignore_errors=True)
    with start() as machine:
        found = replay(arm, machine, jobs, plan, own, stop)
    write_whole(_path(folder, arm), json.dumps({"asked": _asked(jobs), **found}) + "\n")
    tell(f"{arm.name}: done")


def _asked(jobs: Sequence[StretchJob]) -> list[dict[str, Any]]:
    return [asdict(job) for job in jobs]


def _kept(folder: Path, arm: Arm, jobs: Sequence[StretchJob]) -> dict[str, Any] | None:
    path = _path(folder, arm)
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found if found["asked"] == _asked(jobs) else None


def _path(folder: Path, arm: Arm) -> Path:
    return folder / f"plan-hours-{arm.name}.json"
