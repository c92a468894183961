"""How near the forecasts from a campaign's looks came, beside what squeue --start said in them.

Reads the folder that the campaign beside it wrote and needs nothing that runs. Of a look only
what it holds is used, and of accounting only what had ended by then; starts are accounting's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.forecasts.live.sources import OWN, REPLAYS, SOURCES
from slurm_rl_plugin.forecasts.scores import log_waits, scores_of
from slurm_rl_plugin.measure.intervals import Interval, interval_of, of_blocks
from slurm_rl_plugin.units import HOUR, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.start_hours.accounted import accounted
from tests.bench.start_hours.campaign import ARMS, JOBS, LOOKS
from tests.bench.start_hours.foretold import foretold, read_looks
from tests.bench.start_hours.stretched import SPEED

#: Forecasts of so many seconds of the log rest on one queue, and are drawn together.
_BLOCK = 3.0 * HOUR
#: Accounting tells whole seconds of the run, so no wait is taken as shorter, by nobody.
_SHORTEST = SPEED


def main(arguments: Sequence[str] | None = None) -> int:
    """Foretell, score, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what the campaign wrote")
    parser.add_argument("--draws", type=int, default=24, help="replays of each look")
    parser.add_argument("--looks", type=int, default=1000, help="of a run, foretold at most")
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
    """Of one run."""
    jobs = json.loads((folder / JOBS).read_text())["jobs"]
    looks = read_looks(folder / LOOKS)
    origin = looks[0].snapshot.now
    with tempfile.TemporaryDirectory() as own, parts_bar("looks", len(looks)) as done:
        kept = Path(own) / "kept.sqlite"
        rows = foretold(looks, partial(accounted, jobs), folder, kept, draws, most, _each(done))
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


def _each(done: Callable[[int], None]) -> Callable[[int, int], None]:
    return lambda number, of: done(1)


def figures_of(rows: GivenRows, waits: FloatArray, chosen: BoolArray) -> dict[str, Any]:
    """Scores of some forecasts, and beside squeue's where that answered."""
    own = chosen & np.isfinite(rows.sources[:, SOURCES.index(OWN)])
    both = {"all": chosen, "shown": chosen & rows.shown, "beside": own}
    found: dict[str, Any] = {
        name: scores_of(rows.forecasts.select(each), waits[each]).as_json()
        for name, each in both.items()
        if each.any()
    }
    if own.any():
        truth = log_waits(waits[own])
        told = np.abs(log_waits(rows.forecasts.select(own).median) - truth)
        theirs = np.abs(rows.sources[own, SOURCES.index(OWN)] - truth)
        found["squeue"] = _scores(rows, SOURCES.index(OWN), own, waits)
        found["ratio"], found["interval"] = _ratio(told, theirs, rows.moment[own])
    found["replays"] = _scores(rows, SOURCES.index(REPLAYS), chosen, waits)
    return found


def _scores(rows: GivenRows, source: int, chosen: BoolArray, waits: FloatArray) -> dict[str, float]:
    """Of the medians of one source alone."""
    logs = np.repeat(rows.sources[chosen, source][:, None], rows.plain.seconds.shape[1], axis=1)
    found = scores_of(Forecasts.of_logs(logs), waits[chosen]).as_json()
    kept = ("jobs", "square_error", "median_error", "within_2", "within_3")
    return {name: found[name] for name in kept}


def _ratio(ours: FloatArray, theirs: FloatArray, moment: FloatArray) -> tuple[float, Interval]:
    """Median error over theirs, and its 95 % interval over blocks of time; None of too few."""

    def ratio(chosen: IntArray) -> float:
        return float(np.median(ours[chosen]) / np.median(theirs[chosen]))

    drawn = of_blocks((moment // _BLOCK).astype(np.int64), ratio)
    return ratio(np.arange(len(ours))), interval_of(drawn) if len(drawn) else None


def table_of(arm: str, figures: Mapping[str, Any]) -> str:
    """For people."""
    lines = [
        "{arm}: {jobs} jobs, {seen_waiting} seen waiting in {looks} looks, {foretold} foretold, "
        "{shown} with bands; {forecasts} forecasts, {settled} settled by looks".format(
            arm=arm, **figures
        )
    ]
    head = "FORECASTS  WHOSE        N   ERROR   IN-2   IN-3  IN-50  IN-90"
    lines.append(head)
    for when in ("first", "later"):
        part = figures.get(when, {})
        for name in ("all", "shown", "replays", "beside", "squeue"):
            if name in part:
                each = part[name]
                bands = [each.get(f"coverage_{share}", float("nan")) for share in (50, 90)]
                numbers = [each["median_error"], each["within_2"], each["within_3"], *bands]
                told = "".join(f"{number:7.3f}" for number in numbers)
                lines.append(f"{when:10} {name:8} {each['jobs']:5d} {told}")
        if "ratio" in part:
            told = " [{:.3f}, {:.3f}]".format(*part["interval"]) if part["interval"] else ""
            lines.append(f"{when}: ours / squeue's {part['ratio']:.3f}{told}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
