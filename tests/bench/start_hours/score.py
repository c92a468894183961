"""Scores forecasts from the campaign's queue files, and those of squeue --start in the same files.

Reads the campaign's folder and needs no daemon. A forecast uses one queue file and the runs that
had ended by then; true starts are from accounting.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.configuration.reading import read_configuration
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.forecasts.forecast import Forecasts, log_waits, scores_of
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows, KeptForecasts
from slurm_rl_plugin.forecasts.live.sources import OWN, REPLAYS, SOURCES, own_order
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.measure.intervals import Interval, interval_of, of_blocks
from slurm_rl_plugin.services.forecast_service import build_forecaster, build_orders
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import HOUR, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.node_hours.load import ACCOUNTS, account_of
from tests.bench.node_hours.simulated import log_of
from tests.bench.start_hours.campaign import ARMS, JOBS, LOOKS
from tests.bench.start_hours.stretched_hook import (
    SPEED,
    stretched,
    stretched_classes,
    stretched_machine,
)


def accounted(jobs: Sequence[Mapping[str, Any]], origin: float, speed: float = SPEED) -> JobLog:
    """All jobs of a run in order of submission, as an accounting log with stretched times.

    Args:
        jobs: jobs with their outcomes.
        origin: fixed point of the stretch, seconds since the epoch.
        speed: factor of all times.
    """
    log = log_of(sorted(jobs, key=lambda job: int(job["number"])), 0.0)
    users = np.array([ACCOUNTS.index(account_of(user)) for user in log.users], dtype=np.int64)
    times = {name: getattr(log, name) for name in ("submit", "eligible", "start")}
    return replace(
        log,
        **{name: origin + (each - origin) * speed for name, each in times.items()},
        run_time=log.run_time * speed,
        time_limit=log.time_limit * speed,
        account=users[log.user],
        accounts=ACCOUNTS,
    )


def ended_by(
    log: JobLog, now: float, machine: Machine, classifier: JobClassifier
) -> PreparedLog | None:
    """The runs that had ended by `now`; None if there is none."""
    over = log.start + log.run_time <= now
    if not over.any():
        return None
    return prepare_log(log.select(over), machine=machine, classifier=classifier)


#: Seconds of the log between two readings of accounting, as in the service.
_READ_EVERY = HOUR
#: Seconds between two readings of the clock of durations: almost none, so that a busy machine does
#: not reduce the replays of a forecast.
_TICK = 1e-6
#: More forecasts than a run has.
_ALL = 10**7


def read_looks(folder: Path) -> list[QueueOnFile]:
    """The queue files of a run, each once, in order of time and in the run's own time."""
    found: dict[float, QueueOnFile] = {}
    for path in sorted(folder.glob("*.npz")):
        look = read_queue(path)
        found[look.snapshot.now] = look
    return [found[now] for now in sorted(found)]


def forecast_rows(
    looks: list[QueueOnFile],
    log: Callable[[float], JobLog],
    folder: Path,
    kept_file: Path,
    draws: int,
    most: int,
    progress: Callable[[int, int], None],
) -> GivenRows:
    """Forecasts of the jobs of a run, with the starts that queue files show; NaN if they show none.

    Forecasts are made from queue files with a job that was not pending before, and from one for
    each hour of the log; from `most` of these, evenly in time.

    Args:
        looks: queue files, in the run's own time.
        log: accounting of the whole run, stretched about an instant.
        folder: holds the configuration of the cluster and of the daemon.
        kept_file: new file for forecasts.
        draws: replays of each queue file.
        most: number of queue files to use.
        progress: gets the number of files that are done, and of all.
    """
    origin = looks[0].snapshot.now
    configuration = read_configuration(folder / "hook" / "slurm-rl.toml")
    classifier = stretched_classes(configuration.classifier)
    machine, whole = stretched_machine(read_machine(folder)), log(origin)
    kept, orders = KeptForecasts(kept_file), build_orders(configuration)
    forecaster = build_forecaster(configuration, "slurm", kept)
    forecaster.draws, forecaster.monotonic = draws, itertools.count(0.0, _TICK).__next__
    read, history, due = -np.inf, None, _due(looks, most)
    for number, place in enumerate(due):
        look, snapshot = looks[place], stretched(looks[place].snapshot, origin)
        if snapshot.now - read >= _READ_EVERY:
            history, read = ended_by(whole, snapshot.now, machine, classifier), snapshot.now
        if history is not None:
            forecaster.source = replace(forecaster.source, order=orders.get(look.mode, own_order))
            forecaster.forecast(history, snapshot)
        progress(number + 1, len(due))
    forecaster.settle(stretched(looks[-1].snapshot, origin))
    rows = kept.rows(0.0, most=_ALL)
    kept.close()
    return rows


def _due(looks: list[QueueOnFile], most: int) -> list[int]:
    """Places of the queue files from which forecasts are made."""
    seen, last, found = set[int](), -np.inf, []
    for place, look in enumerate(looks):
        jobs = set(look.snapshot.pending.jobs.job_id.tolist())
        now = look.snapshot.now
        if jobs and (not jobs <= seen or now - last >= HOUR / SPEED):
            found.append(place)
            seen, last = seen | jobs, now
    if len(found) <= most:
        return found
    return [found[each] for each in np.linspace(0, len(found) - 1, most).astype(int).tolist()]


#: Seconds of the log whose forecasts depend on the same queue, and are drawn together.
_BLOCK = 3.0 * HOUR
#: The shortest wait: accounting has whole seconds of the run.
_SHORTEST = SPEED


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes forecasts, scores them, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what the campaign wrote")
    parser.add_argument("--draws", type=int, default=24, help="replays of each queue file")
    parser.add_argument(
        "--looks", type=int, default=1000, help="queue files of a run to use, at most"
    )
    chosen = parser.parse_args(arguments)
    arms = [arm for arm in ARMS if (chosen.folder / arm / JOBS).exists()]
    if not arms:
        sys.exit(f"{chosen.folder} has no run: run tests.bench.start_hours.campaign first.")
    result = {arm: figures_of_arm(chosen.folder / arm, chosen.draws, chosen.looks) for arm in arms}
    write_whole(chosen.folder / "start-hours.json", json.dumps(result, indent=2) + "\n")
    for arm, figures in result.items():
        print(table_of(arm, figures))
    return 0


def figures_of_arm(folder: Path, draws: int, most: int) -> dict[str, Any]:
    """Scores of one run."""
    jobs = json.loads((folder / JOBS).read_text())["jobs"]
    looks = read_looks(folder / LOOKS)
    origin = looks[0].snapshot.now
    with tempfile.TemporaryDirectory() as own, parts_bar("looks", len(looks)) as done:
        kept = Path(own) / "kept.sqlite"
        rows = forecast_rows(
            looks, partial(accounted, jobs), folder, kept, draws, most, lambda *_: done(1)
        )
    starts = {job["number"]: float(job["outcome"]["start"]) for job in jobs}
    seen = {job for look in looks for job in look.snapshot.pending.jobs.job_id.tolist()}
    truth = origin + (np.array([starts[job] for job in rows.job.tolist()]) - origin) * SPEED
    waits = np.maximum(truth - rows.moment, _SHORTEST)
    rows = replace(
        rows,
        forecasts=Forecasts(np.maximum(rows.forecasts.seconds, _SHORTEST)),
        sources=np.maximum(rows.sources, np.log10(_SHORTEST)),
    )
    first = np.zeros(len(rows), dtype=np.bool_)
    first[np.unique(rows.job, return_index=True)[1]] = True
    found = {"first": first, "later": ~first}
    return {
        "looks": len(looks),
        "jobs": len(jobs),
        "seen_waiting": len(seen),
        "foretold": int(first.sum()),
        "shown": len(np.unique(rows.job[rows.shown])),
        "settled": int(rows.known.sum()),
        "forecasts": len(rows),
        **{name: figures_of(rows, waits, each) for name, each in found.items() if each.any()},
    }


def figures_of(rows: GivenRows, waits: FloatArray, chosen: BoolArray) -> dict[str, Any]:
    """Scores of some forecasts, and of squeue's for jobs that it forecast."""
    own = chosen & np.isfinite(rows.sources[:, SOURCES.index(OWN)])
    both = {"all": chosen, "shown": chosen & rows.shown, "beside": own}
    found: dict[str, Any] = {
        name: scores_of(rows.forecasts.select(each), waits[each]).as_json()
        for name, each in both.items()
        if each.any()
    }
    if own.any():
        truth = log_waits(waits[own])
        ours = np.abs(log_waits(rows.forecasts.select(own).median) - truth)
        theirs = np.abs(rows.sources[own, SOURCES.index(OWN)] - truth)
        found["squeue"] = _scores(rows, SOURCES.index(OWN), own, waits)
        found["ratio"], found["interval"] = _ratio(ours, theirs, rows.moment[own])
    found["replays"] = _scores(rows, SOURCES.index(REPLAYS), chosen, waits)
    return found


def _scores(rows: GivenRows, source: int, chosen: BoolArray, waits: FloatArray) -> dict[str, float]:
    """Scores of the medians of one source alone."""
    logs = np.repeat(rows.sources[chosen, source][:, None], rows.plain.seconds.shape[1], axis=1)
    found = scores_of(Forecasts.of_logs(logs), waits[chosen]).as_json()
    kept = ("jobs", "square_error", "median_error", "within_2", "within_3")
    return {name: found[name] for name in kept}


def _ratio(ours: FloatArray, theirs: FloatArray, moment: FloatArray) -> tuple[float, Interval]:
    """Median error over theirs, and its 95 % interval over blocks of time; None for few blocks."""

    def ratio(chosen: IntArray) -> float:
        return float(np.median(ours[chosen]) / np.median(theirs[chosen]))

    drawn = of_blocks((moment // _BLOCK).astype(np.int64), ratio)
    return ratio(np.arange(len(ours))), interval_of(drawn) if len(drawn) else None


def table_of(arm: str, figures: Mapping[str, Any]) -> str:
    """A line for each part of the forecasts."""
    lines = [
        "{arm}: {jobs} jobs, {seen_waiting} seen pending in {looks} queue files, {0} with "
        "forecasts, {shown} with bands; {forecasts} forecasts, {settled} with a known start".format(
            figures["foretold"], arm=arm, **figures
        )
    ]
    lines.append("FORECASTS  SOURCE       N   ERROR   IN-2   IN-3  IN-50  IN-90")
    for when in ("first", "later"):
        part = figures.get(when, {})
        for name in ("all", "shown", "replays", "beside", "squeue"):
            if name in part:
                each = part[name]
                bands = [each.get(f"coverage_{share}", float("nan")) for share in (50, 90)]
                numbers = [each["median_error"], each["within_2"], each["within_3"], *bands]
                cells = "".join(f"{number:7.3f}" for number in numbers)
                lines.append(f"{when:10} {name:8} {each['jobs']:5d} {cells}")
        if "ratio" in part:
            bounds = " [{:.3f}, {:.3f}]".format(*part["interval"]) if part["interval"] else ""
            lines.append(f"{when}: our error / squeue's {part['ratio']:.3f}{bounds}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
