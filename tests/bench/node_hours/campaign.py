"""A stretch of a Slurm site's week on real daemons: nodes of several kinds, memory and GPUs.

Needs root, the log as one sbatch line a job, and Slurm 26.05 (tests/real/install_release.sh forky).
Every repetition submits the same jobs at the same times to a private cluster of its own; a
simulator is then held against the starts, and the repetitions among each other say how near it
can come. What an earlier call has finished in the same folder is kept. With --change the cluster's
slurm.conf is a changed one, and jobs that it would refuse are sent as what-if says.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.node_hours.change import SentJobs, sent_under
from tests.bench.node_hours.figures import figures_of, noise_of
from tests.bench.node_hours.load import stretch_of
from tests.bench.node_hours.machine import cluster_plan
from tests.bench.node_hours.replay import replay
from tests.bench.speed.deep_queue import tell
from tests.real.slurm_releases import RELEASES, missing_release

#: Seconds between the beginnings of repetitions that run beside each other.
APART = 50.0


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="one sbatch line a job, gzip")
    parser.add_argument("--first", type=int, default=17000, help="place of the first job")
    parser.add_argument("--jobs", type=int, default=850)
    parser.add_argument("--speed", type=float, default=170.0, help="seconds of the log in one")
    parser.add_argument("--change", default="", help="of slurm.conf, as what-if takes it")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="repetitions beside each other")
    parser.add_argument("--release", choices=sorted(RELEASES), default="26.05")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write."""
    chosen = options(arguments)
    release = RELEASES[chosen.release]
    if missing := missing_release(release):
        sys.exit(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the clusters go too
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, chosen.speed)
    sent = sent_under(chosen.change, cluster_plan(chosen.speed), jobs, release)
    for sentence in sent.sentences:
        tell(sentence)
    folders = [chosen.output / f"rep{number + 1}" for number in range(chosen.repetitions)]
    _run_missing(chosen, sent, folders)
    runs = [json.loads(_path(folder).read_text()) for folder in folders]
    result = {"repetitions": [figures_of(run) for run in runs], "noise": noise_of(runs)}
    text = json.dumps(result, indent=2) + "\n"
    write_whole(chosen.output / "node-hours.json", text)
    print(text, end="")
    return 0


def _run_missing(chosen: argparse.Namespace, sent: SentJobs, folders: Sequence[Path]) -> None:
    stop, jobs = Event(), sent.jobs
    head = {
        **{name: getattr(chosen, name) for name in ("first", "speed", "release", "change")},
        "log": chosen.log.name,
        "places": list(sent.places),
        "sentences": sent.sentences,
        "asked": [asdict(job) for job in jobs],
    }
    missing = [folder for folder in folders if not _is_kept(folder, head)]

    def run(folder: Path, submitted: Callable[[int], None]) -> None:
        # Bursts of submissions must not meet on a machine of few cores.
        if stop.wait(APART * (folders.index(folder) % chosen.at_once)):
            return
        folder.mkdir(parents=True, exist_ok=True)
        found = replay(folder.name, chosen.release, jobs, sent.plan, folder, stop, submitted)
        write_whole(_path(folder), json.dumps({**head, **found}) + "\n")
        tell(f"{folder.name}: done")

    with (
        ThreadPoolExecutor(chosen.at_once) as pool,
        parts_bar("jobs submitted", len(missing) * len(jobs)) as submitted,
    ):
        try:
            list(pool.map(partial(run, submitted=submitted), missing))
        except BaseException:  # Ctrl-C and SIGTERM too: the clusters go, and then we
            stop.set()
            raise


def _is_kept(folder: Path, head: Mapping[str, Any]) -> bool:
    """Whether it holds these jobs under this change."""
    path = _path(folder)
    kept = json.loads(path.read_text()) if path.exists() else {}
    return bool(kept.get("asked") == head["asked"] and kept.get("change", "") == head["change"])


def _path(folder: Path) -> Path:
    return folder / "jobs.json"


if __name__ == "__main__":
    sys.exit(main())
