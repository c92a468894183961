"""A stretch of a Slurm site's week on real daemons with ours beside them, and every look kept.

Needs root, the log as one sbatch line a job, and Slurm 26.05 (tests/real/install_release.sh forky).
Two private clusters run the jobs of tests.bench.node_hours beside each other: one in the site's own
order, our daemon in shadow mode, one in the order of the default model. `score` foretells
from the looks afterwards. What an earlier call has finished in the same folder is kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.whole_file import version_of, write_whole
from tests.bench.live.compressed_time import (
    side_by_side,
    tell,
)
from tests.bench.node_hours.campaign import APART
from tests.bench.node_hours.load import NodeJob, cluster_plan, stretch_of
from tests.bench.node_hours.replay import replay
from tests.bench.start_hours.stretched_hook import SPEED
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import RELEASES, missing_release

#: Seconds between two glances at the file.
_EVERY = 0.2


@contextmanager
def kept_looks(queue_file: Path, folder: Path) -> Iterator[None]:
    """Copy each new content of a file to a folder while the block runs, numbered from 0.

    Args:
        queue_file: replaced by whoever writes it, never changed in place.
        folder: of the copies; made where it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = Event()
    thread = Thread(target=_keep, args=(queue_file, folder, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _keep(queue_file: Path, folder: Path, stop: Event) -> None:
    known, count = None, 0
    while not stop.wait(_EVERY):
        version = version_of(queue_file)
        if version == known:
            continue
        with suppress(FileNotFoundError):  # not written yet
            shutil.copyfile(queue_file, folder / f"{count:05d}.npz")
            known, count = version, count + 1


def looks_in(folder: Path) -> list[Path]:
    """The kept looks, in order of time."""
    return sorted(folder.glob("*.npz"))


#: How the daemon orders in each arm: not at all, or by the default model.
ARMS = {"plain": "shadow", "active": "active"}
RELEASE = "26.05"
#: Seconds between cycles, which are looks; 340 of the log's.
CYCLE, BUSY_SHARE = 2.0, 0.5
HOOK, LOOKS, JOBS = "hook", "looks", "jobs.json"


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="one sbatch line a job, gzip")
    parser.add_argument("--first", type=int, default=17000, help="place of the first job")
    parser.add_argument("--jobs", type=int, default=650)
    parser.add_argument("--output", type=Path, default=Path("bench-output/start-hours"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and write."""
    chosen = options(arguments)
    missing = missing_release(RELEASES[RELEASE])
    if missing:
        sys.exit(missing)
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, SPEED)
    arms = [arm for arm in ARMS if not (chosen.output / arm / JOBS).exists()]
    with parts_bar("jobs", len(arms) * len(jobs)) as done:
        side_by_side(
            lambda arm, stop: _run(arm, chosen.output / arm, jobs, stop, done),
            *(arms, len(ARMS), APART),
        )
    return 0


def _run(arm: str, folder: Path, jobs: Sequence[NodeJob], stop: Event, done: Any) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = replay(
        *(arm, RELEASE, jobs, cluster_plan(SPEED), folder, stop, done),
        beside=lambda slurm: _watched(slurm, arm, folder),
    )
    write_whole(folder / JOBS, json.dumps(found) + "\n")
    tell(f"{arm}: done")


@contextmanager
def _watched(slurm: PrivateSlurm, arm: str, folder: Path) -> Iterator[None]:
    """The daemon beside a cluster, and every look that it leaves."""
    hook = folder.resolve() / HOOK
    queue = hook / "queue.npz"
    more = f'busy_share = {BUSY_SHARE:g}\n[forecast]\nqueue_file = "{queue}"\n'
    with (
        kept_looks(queue, folder / LOOKS),
        running_hook(
            slurm,
            hook,
            "default",
            mode=ARMS[arm],
            cycle=CYCLE,
            more=more,
            program="tests.bench.start_hours.stretched_hook",
        ) as daemon,
    ):
        yield
        assert daemon.stop() == 0, daemon.log[-3000:]


if __name__ == "__main__":
    sys.exit(main())
