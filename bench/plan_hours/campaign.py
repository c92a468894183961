"""A stretch of a real log on real daemons, with plan estimates and without, the same order in both.

Needs root, a log in SWF, and Slurm 26.05 (tests/real/install_release.sh forky): two private
clusters run beside each other. `--batch-system pbs` takes the OpenPBS that runs here, one arm after
the other, and changes it meanwhile. What an earlier call of the same options has finished is kept.
Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.plan_hours.figures import figures_of
from bench.plan_hours.load import StretchPlan, stretch_of
from bench.plan_hours.pbs_machine import openpbs
from bench.plan_hours.replay import ARMS
from bench.plan_hours.runs import run_arms, slurm_of
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.whole_file import write_whole
from tests.real.openpbs_server import missing_openpbs
from tests.real.slurm_releases import RELEASES, missing_release

_USUAL = StretchPlan()
#: What was measured, the figure, and whether it is what it has to be.
Line = tuple[str, str, bool]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="in SWF; its last 40 %% are used")
    parser.add_argument("--batch-system", choices=("slurm", "pbs"), default="slurm")
    parser.add_argument("--release", choices=sorted(RELEASES), default="26.05")
    parser.add_argument("--jobs", type=int, default=_USUAL.jobs)
    parser.add_argument("--minutes", type=float, default=_USUAL.minutes, help="of submissions")
    parser.add_argument("--over", type=float, default=_USUAL.over, help="longer requests")
    parser.add_argument("--longest", type=int, default=_USUAL.longest, help="request, minutes")
    parser.add_argument("--seed", type=int, default=_USUAL.seed, help="chooses the stretch")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    return parser.parse_args(arguments)


def goals(figures: Mapping[str, Mapping[str, Any]], released: Mapping[str, int]) -> Iterator[Line]:
    """What must hold however long jobs wait."""
    for arm in ARMS:
        for what in ("killed", "changed", "overlapping"):
            count = figures[arm.name][what]
            yield f"{what}, {arm.name}", str(count), count == 0
    yield "left after a release", "{left} of {stood}".format(**released), released["left"] == 0


def print_table(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """A row an arm, and estimates over none."""
    print("ARM         JOBS  GIVEN  STARTED-WITH  OUTLIVED  SLOWDOWN  MEAN-WAIT  LONGEST-WAIT")
    for arm in ARMS:
        each = figures[arm.name]
        print(
            f"{arm.name:10s} {each['jobs']:5d}  {each['given']:5d}  {each['started_with']:12d}  "
            f"{each['outlived']:8d}  {each['slowdown']:8.3f}  {each['mean_wait']:9.1f}  "
            f"{each['longest_wait']:12.0f}"
        )
    none, told = (figures[arm.name] for arm in ARMS)
    for what in ("slowdown", "mean_wait", "longest_wait"):
        print(f"{what.replace('_', ' ')}, estimates / none: {told[what] / none[what]:.3f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 where a goal is missed."""
    chosen = options(arguments)
    pbs = chosen.batch_system == "pbs"
    missing = missing_openpbs() if pbs else missing_release(RELEASES[chosen.release])
    if missing:
        sys.exit(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the clusters go too
    plan = StretchPlan(jobs=chosen.jobs, minutes=chosen.minutes, over=chosen.over, seed=chosen.seed)
    log, report = SwfReader().read(chosen.log)
    jobs = stretch_of(log, plan)
    start = openpbs(plan) if pbs else slurm_of(chosen.release, plan)
    folder = chosen.output / f"plan-hours-{chosen.batch_system}"
    runs = run_arms(start, jobs, plan, folder, at_once=1 if pbs else len(ARMS))
    figures = {name: figures_of(run) for name, run in runs.items()}
    released = runs[ARMS[1].name]["released"]
    result = {
        "log": {"name": chosen.log.name, "sha256": report.checksum},
        "plan": asdict(plan),
        "batch_system": chosen.batch_system if pbs else f"Slurm {chosen.release}",
        "figures": figures,
        "released": released,
    }
    write_whole(folder / "plan-hours.json", json.dumps(result, indent=2) + "\n")
    print_table(figures)
    lines = list(goals(figures, released))
    for what, figure, met in lines:
        print(f"{what:32s} {figure:>10s}  goal 0: {'met' if met else 'MISSED'}")
    return 0 if all(met for *_, met in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
