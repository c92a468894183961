"""Every hour three ways on real Slurms side by side; what has run is kept."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Event

from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.reserve_hours.load import HourPlan, lpc_like_hour
from tests.bench.reserve_hours.model import RESERVE_HEAD, hour_network
from tests.bench.reserve_hours.prediction import Latency
from tests.bench.reserve_hours.replay import (
    BUSY_SHARE,
    CYCLE,
    SPEED,
    ReplayedJob,
    Side,
    as_rows,
    replay,
    reserve_lines,
)
from tests.bench.speed.deep_queue import tell

PLAIN, ORDER, RESERVE = "plain", "order", "reserve"
#: Processors that the daemon may keep free at most; the model says how many.
MOST = 3
LIMIT = ClassLimit(change_interval=10.0, lift_after=2700.0, idle_after=3600.0, narrow_first=True)
SIDES = (
    Side(name=PLAIN),
    Side(name=ORDER, daemon=True),
    Side(
        name=RESERVE,
        daemon=True,
        reserve=reserve_lines(MOST, LIMIT),
    ),
)
#: What Slurm adds in this set-up: fitted to a real run of hour 1000, which is not shown.
LATENCY = Latency(start=3.0, end=4.0)
Runs = dict[tuple[int, str], list[ReplayedJob]]


def run_hours(seeds: Sequence[int], plan: HourPlan, folder: Path, *, at_once: int) -> Runs:
    """All runs: those that an earlier call has left in the folder, and the others on real Slurms.

    Args:
        seeds: of the hours.
        plan: what kind of hours.
        folder: of a file for each run.
        at_once: hours, with three clusters each; the three share what disturbs them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = Event()
    for first in range(0, len(seeds), at_once):
        missing = [
            (seed, side)
            for seed in seeds[first : first + at_once]
            for side in SIDES
            if not _kept(folder, seed, side, plan)
        ]
        with ThreadPoolExecutor(max(len(missing), 1)) as pool:
            try:
                list(pool.map(lambda each: _run(*each, plan, folder, stop), missing))
            except BaseException:  # Ctrl-C and SIGTERM too: the clusters go, and then we
                stop.set()
                raise
    return {(seed, side.name): read_run(folder, seed, side) for seed in seeds for side in SIDES}


def _run(seed: int, side: Side, plan: HourPlan, folder: Path, stop: Event) -> None:
    with tempfile.TemporaryDirectory() as own:
        jobs = replay(side, lpc_like_hour(seed, plan), Path(own), hour_network(), stop)
    document = {"seed": seed, "side": side.name, "key": _key(side, plan), "jobs": as_rows(jobs)}
    write_whole(_path(folder, seed, side), json.dumps(document) + "\n")
    tell(f"hour {seed}, {side.name}: done")


def _key(side: Side, plan: HourPlan) -> dict[str, object]:
    """What a kept run must have been made with."""
    model = asdict(RESERVE_HEAD) if side.daemon else None
    return {
        "side": asdict(side),
        "plan": asdict(plan),
        "speed": SPEED,
        "cycle": CYCLE,
        "busy_share": BUSY_SHARE,
        "model": model,
    }


def _kept(folder: Path, seed: int, side: Side, plan: HourPlan) -> bool:
    path = _path(folder, seed, side)
    return path.exists() and json.loads(path.read_text())["key"] == _key(side, plan)


def _path(folder: Path, seed: int, side: Side) -> Path:
    return folder / f"hour-{seed}-{side.name}.json"


def read_run(folder: Path, seed: int, side: Side) -> list[ReplayedJob]:
    """A run that is kept."""
    rows = json.loads(_path(folder, seed, side).read_text())["jobs"]
    return [ReplayedJob(**{"sent": row["submit"], **row}) for row in rows]
