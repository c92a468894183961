"""Replays part of a Slurm site's week with the daemon running, and keeps every queue file.

Needs root, the log with one sbatch line for each job, and Slurm 26.05
(tests/real/install_release.sh forky). Two private clusters run the jobs of tests.bench.node_hours
at the same time: one in the site's own order with the daemon in shadow mode, one in the order of
the default model. `score` makes forecasts from the queue files. Runs that are finished in the same
folder are not run again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from slurm_rl_plugin.whole_file import version_of
from tests.bench.live.harness import Document, kept_runs, write_associations
from tests.bench.node_hours.campaign import APART, add_load_arguments, replay
from tests.bench.node_hours.load import cluster_plan, stretch_of
from tests.bench.start_hours.stretched_hook import SPEED
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import RELEASES, missing_release

#: Mode of the daemon in each run.
ARMS = {"plain": "shadow", "active": "active"}
RELEASE = "26.05"
#: Seconds between cycles, which write queue files; 340 seconds of the log.
CYCLE, BUSY_SHARE = 2.0, 0.5
HOOK, LOOKS, JOBS = "hook", "looks", "jobs.json"
#: Seconds between two checks of the queue file.
_EVERY = 0.2


@contextmanager
def kept_looks(queue_file: Path, folder: Path) -> Iterator[None]:
    """Copies each new version of the queue file to a folder during the block, numbered from 0."""
    folder.mkdir(parents=True, exist_ok=True)
    stop = Event()

    def keep() -> None:
        known, count = None, 0
        while not stop.wait(_EVERY):
            version = version_of(queue_file)
            if version == known:
                continue
            with suppress(FileNotFoundError):  # not written yet
                shutil.copyfile(queue_file, folder / f"{count:05d}.npz")
                known, count = version, count + 1

    thread = Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_load_arguments(parser, 650)
    parser.add_argument("--output", type=Path, default=Path("bench-output/start-hours"))
    chosen = parser.parse_args(arguments)
    if missing := missing_release(RELEASES[RELEASE]):
        sys.exit(missing)
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, SPEED)
    plan = cluster_plan(SPEED)

    def play(arm: str, folder: Path, stop: Event) -> Document:
        for name in (HOOK, LOOKS):  # of a run that was interrupted
            shutil.rmtree(folder / name, ignore_errors=True)
        write_associations(plan, folder)
        return replay(
            *(arm, RELEASE, jobs, plan, folder, stop),
            during=lambda slurm: _watched(slurm, arm, folder),
        )

    kept_runs(
        {chosen.output / arm / JOBS: arm for arm in ARMS},
        lambda _: {},
        play,
        at_once=len(ARMS),
        apart=APART,
    )
    return 0


@contextmanager
def _watched(slurm: PrivateSlurm, arm: str, folder: Path) -> Iterator[None]:
    """Runs the daemon and keeps the queue files that it writes."""
    hook = folder.resolve() / HOOK
    queue = hook / "queue.npz"
    more = f'busy_share = {BUSY_SHARE:g}\n[forecast]\nqueue_file = "{queue}"\n'
    program = "tests.bench.start_hours.stretched_hook"
    with (
        kept_looks(queue, folder / LOOKS),
        running_hook(
            slurm, hook, "default", mode=ARMS[arm], cycle=CYCLE, more=more, program=program
        ),
    ):
        yield


if __name__ == "__main__":
    sys.exit(main())
