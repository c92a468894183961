"""Record the pictures of docs/metrics.md: a real run of some minutes, drawn from real answers.

    python -m tests.real.record_dashboard_pictures docs/pictures

Two accounts share 16 processors of a private Slurm under load. The daemon is in shadow mode first,
then active; near the end its model is broken and restored.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from tests.fakes.running_daemon import free_port
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.draw_panels import Span, draw_dashboard
from tests.real.load import mixed_load, submit_all
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.prometheus_server import DASHBOARDS, prometheus_remembering, prometheus_scraping
from tests.real.test_dashboards import RULES, change_mode, hurried
from tests.real.test_first_light import MODEL, not_a_number_model

PLAN = ClusterPlan(
    nodes=2,
    processors_per_node=8,
    accounts=ACCOUNTS,
    options={
        "SchedulerParameters": "sched_interval=1,bf_interval=2,default_queue_depth=1000",
        "PriorityDecayHalfLife": "0-00:05:00",
        "PriorityCalcPeriod": "1",
    },
)
#: Seconds of each part of the run.
SHADOW, ACTIVE, BROKEN, MENDED = 200.0, 200.0, 40.0, 25.0


def submit_until(slurm: PrivateSlurm, end: float, draw: random.Random) -> int:
    """Two interactive jobs for each batch job, as fast as 16 processors can just take; how many."""
    jobs = 0
    while time.monotonic() < end:
        batch = draw.random() < 1 / 3
        slurm.submit(
            user="alice" if draw.random() < 0.5 else "bob",
            processors=draw.choice((1, 2, 3)) if batch else 1,
            seconds=draw.uniform(10, 20) if batch else draw.uniform(1, 3),
            minutes=10 if batch else 1,
        )
        jobs += 1
        time.sleep(draw.expovariate(1 / 0.6))
    return jobs


def record(folder: Path) -> None:
    """Run in this folder; Prometheus' data and `span.json` stay in it."""
    model = folder / "model.onnx"
    shutil.copy(MODEL, model)
    rules = [hurried(RULES / name, folder) for name in ("recording_rules.yml", "alerts.yml")]
    with running_slurm(PLAN) as slurm:
        release = slurm.run("sinfo", "--version").stdout.split()[1]
        begun = submit_all(slurm, mixed_load(20, 80, 1))
        with (
            running_hook(slurm, folder, model, mode="shadow", cycle=2) as hook,
            prometheus_scraping(hook.port, free_port(), folder, rules),
        ):
            start = time.time()  # noqa: TID251 - Prometheus' clock
            marks, jobs = watched(slurm, hook, model)
            end = time.time()  # noqa: TID251
            time.sleep(2)
            hook.stop()
    caption = (
        f"Answers of Prometheus on a private Slurm {release} with 16 processors, "
        f"{jobs + len(begun)} jobs; window 2 minutes, a cycle at most each 2 s. "
        "Waits below 10 s are one bucket."
    )
    said = {"start": start + 2, "end": end, "marks": marks, "caption": caption}
    (folder / "span.json").write_text(json.dumps(said))


def draw(folder: Path, target: Path) -> None:
    """Draw every row of every dashboard from what was recorded in the folder."""
    said = json.loads((folder / "span.json").read_text())
    port = free_port()
    span = Span(
        port=port,
        caption=said["caption"],
        start=said["start"],
        end=said["end"],
        step=2,
        window="2m",
        rate_interval="20s",
        marks=said["marks"],
    )
    with prometheus_remembering(port, folder):
        for dashboard in DASHBOARDS:
            draw_dashboard(dashboard, target, span)


def main() -> None:
    """Record, unless a recording is given, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--recording", type=Path, help="folder of an earlier run, or for this one")
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dashboard-pictures-") as temporary:
        folder: Path = (options.recording or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "span.json").exists():
            record(folder)
        draw(folder, options.pictures)


def watched(
    slurm: PrivateSlurm, hook: RunningHook, model: Path
) -> tuple[list[tuple[float, str]], int]:
    """The parts of the run: when each began, and how many jobs were submitted."""
    draw = random.Random(1)
    marks: list[tuple[float, str]] = []

    def part(words: str, seconds: float) -> int:
        marks.append((time.time(), words))  # noqa: TID251 - Prometheus' clock
        return submit_until(slurm, time.monotonic() + seconds, draw)

    jobs = part("shadow", SHADOW)
    change_mode(hook, "shadow", "active")
    jobs += part("active", ACTIVE)
    not_a_number_model(model)
    hook.process.send_signal(signal.SIGHUP)
    jobs += part("model broken", BROKEN)
    shutil.copy(MODEL, model)
    hook.process.send_signal(signal.SIGHUP)
    return marks, jobs + part("model mended", MENDED)


if __name__ == "__main__":
    main()
