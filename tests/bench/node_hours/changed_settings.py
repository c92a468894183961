"""Compares the real effects of slurm.conf changes with the effects that what-if predicts.

Reads folders of the campaign, one without --change and one for each change, and needs no daemon.
First each repetition is simulated with its own slurm.conf, as `fidelity` does. Then the jobs that
the base recorded are simulated on the base's machine and on the changed one, as `slurm-rl what-if`
does, which knows no run of the change; its intervals are over equal periods of submission time, as
what-if's are over weeks. Cells are class and partition of a job in the base.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.machine_files.reader import read_cluster
from slurm_rl_plugin.measure.intervals import Blocks, widened
from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.what_if.effects import FEW_SECONDS, SMALL
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.live.harness import CONTROLLER_LOG
from tests.bench.node_hours.campaign import changed_cluster
from tests.bench.node_hours.fidelity import agrees, waits_in_line
from tests.bench.node_hours.simulated import (
    Run,
    as_simulated,
    cells_of,
    delays_of,
    runs_in,
    simulated_starts,
    waits_of,
)

#: Equal periods of submission time; empty ones are left out.
STRETCHES = 20
#: Questions about each predicted effect.
VERDICTS = ("sign", "sign_beyond_chance", "sure_sign", "within", "near")
Cells = Mapping[str, BoolArray]
Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOnCell:
    """Mean wait after a change less the mean wait before, seconds."""

    jobs: int  #: jobs that run in both
    base: float  #: real mean wait before the change
    real: float  #: effect on the real slurmctld
    simulated: float  #: effect that what-if predicts from the base's record
    ci95: tuple[float, float] | None  #: its interval; None if some draws have no such job
    #: Largest difference of two real repetitions of the base; None for one repetition.
    chance: float | None

    def verdicts(self) -> dict[str, bool | None]:
        """Whether the prediction is right; None if the question does not arise.

        `sign` counts an effect of at most 1 % of the wait, or a second, as none.
        `sign_beyond_chance` counts real effects larger than chance, `sure_sign` intervals without
        0. `near` is within 15 % of the wait before, or a second.
        """
        ci95, least = self.ci95, max(SMALL * self.base, FEW_SECONDS)
        real, simulated = (
            int(np.sign(each)) if abs(each) > least else 0 for each in (self.real, self.simulated)
        )
        significant = ci95 is not None and (ci95[0] > 0.0 or ci95[1] < 0.0) and simulated != 0
        beyond = self.chance is not None and real != 0 and abs(self.real) > self.chance
        return {
            "sign": real == simulated,
            "sign_beyond_chance": real == simulated if beyond else None,
            "sure_sign": real == simulated if significant else None,
            "within": ci95[0] <= self.real <= ci95[1] if ci95 else None,
            "near": agrees(self.real, self.simulated, self.base),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The repetitions under one slurm.conf."""

    #: folders, runs: of each repetition.
    folders: Sequence[Path]
    runs: Sequence[Run]
    #: real, simulated: waits of the base's jobs in each, seconds, shape [repetitions, jobs]; NaN
    #: for jobs that were not sent.
    real: FloatArray
    simulated: FloatArray

    @classmethod
    def read(cls, folder: Path, count: int = 0) -> Setting:
        """Reads the campaign's folder; the base has `count` jobs, 0 for those of the run."""
        folders, runs = runs_in(folder)
        simulated = [
            as_simulated(run, read_cluster(each).machine, delays_of(each / f"{CONTROLLER_LOG}.gz"))
            for each, run in zip(folders, runs, strict=True)
        ]
        real, ours = (
            np.array([_by_place(run, count) for run in side]) for side in (runs, simulated)
        )
        return cls(folders=folders, runs=runs, real=real, simulated=ours)

    @property
    def change(self) -> str:
        """The change, as what-if takes it; "" for the base."""
        return str(self.runs[0].get("change", ""))


def _by_place(run: Run, count: int) -> FloatArray:
    """Waits by the job's place in the base."""
    found = np.full(count or len(run["jobs"]), np.nan)
    found[run.get("places", range(len(run["jobs"])))] = waits_of(run)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulates, compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="what the campaign wrote without --change")
    parser.add_argument("changed", type=Path, nargs="+", help="one folder for each change")
    chosen = parser.parse_args(arguments)
    base = Setting.read(chosen.base)
    changed = [Setting.read(folder, base.real.shape[1]) for folder in chosen.changed]
    cells = {" ".join(name): mask for name, mask in cells_of(base.runs[0]).items()}
    result = {
        "cells": {each.change: agreement(each, cells) for each in (base, *changed)},
        "effects": {
            each.change: {
                name: asdict(cell) | cell.verdicts()
                for name, cell in effects_on(base, each, cells).items()
            }
            for each in changed
        },
    }
    write_whole(chosen.base / "changed-settings.json", json.dumps(result, indent=2) + "\n")
    print(table_of(result))
    return 0


def agreement(setting: Setting, cells: Cells) -> dict[str, dict[str, list[float]]]:
    """Real and simulated mean wait of each cell in each repetition."""
    ran, found = np.isfinite(setting.real[0]), {}
    for name, mask in cells.items():
        if (jobs := mask & ran).any():
            real, ours = (
                side[:, jobs].mean(axis=1).tolist() for side in (setting.real, setting.simulated)
            )
            near = list(map(agrees, real, ours))
            found[name] = {"real": real, "simulated": ours, "agrees": near}
    return found


def what_if_waits(base: Setting, change: str) -> FloatArray:
    """Waits on the changed machine of the jobs that each repetition of the base recorded."""
    found = []
    for folder, run in zip(base.folders, base.runs, strict=True):
        cluster, delays = read_cluster(folder), delays_of(folder / f"{CONTROLLER_LOG}.gz")
        machine = changed_cluster(cluster, change).machine
        starts = simulated_starts(run["jobs"], machine, delays, before=cluster.machine)
        found.append(starts - np.array([job["outcome"]["eligible"] for job in run["jobs"]]))
    return np.array(found)


def effects_on(base: Setting, changed: Setting, cells: Cells) -> dict[str, EffectOnCell]:
    """The effect of a change on each cell; jobs' waits are means over the repetitions."""
    before, after, predicted_before = (
        side.mean(axis=0) for side in (base.real, changed.real, base.simulated)
    )
    predicted_after = what_if_waits(base, changed.change).mean(axis=0)
    ran = np.isfinite(after) & np.isfinite(predicted_after)
    submit = np.array([job["submit"] for job in base.runs[0]["jobs"]])[ran]
    since = (submit - submit[0]) / max(float(submit[-1] - submit[0]), 1.0)
    place = np.minimum((since * STRETCHES).astype(np.int64), STRETCHES - 1)
    blocks, found = Blocks.of_stretches(place, "stretches", np.random.default_rng(1)), {}
    for name, cell in cells.items():
        mask, jobs = cell & ran, np.flatnonzero(cell[ran])
        if not len(jobs):
            continue
        drawn = blocks.means(predicted_after[mask], jobs)
        drawn = drawn - blocks.means(predicted_before[mask], jobs)
        apart = np.ptp(base.real[:, mask].mean(axis=1))
        effect = float((predicted_after - predicted_before)[mask].mean())
        found[name] = EffectOnCell(
            jobs=len(jobs),
            base=float(before[mask].mean()),
            real=float((after - before)[mask].mean()),
            simulated=effect,
            ci95=widened(drawn, effect, blocks.count),
            chance=float(apart) if len(base.real) > 1 else None,
        )
    return found


def table_of(result: Found) -> str:
    """Mean waits under each setting, the effect of each change, and the counts."""
    lines: list[str] = []
    for change, cells in result["cells"].items():
        lines += [f"{change or 'as it is'}: MEAN WAIT, REAL AND SIMULATED, S; * DIFFERS"]
        lines += [f"  {name:28}{waits_in_line(*cell.values())}" for name, cell in cells.items()]
        lines += [_agreeing([cells])]
    for change, cells in result["effects"].items():
        lines += [f"{change}: EFFECT, REAL, SIMULATED, INTERVAL, CHANCE"]
        lines += [*_effects(cells), *_verdicts([cells])]
    every = result["effects"].values()
    return "\n".join(
        [*lines, "ALL OF THEM", _agreeing(result["cells"].values()), *_verdicts(every)]
    )


def _agreeing(settings: Iterable[Found]) -> str:
    near = [each for cells in settings for cell in cells.values() for each in cell["agrees"]]
    return f"  cells that agree: {sum(near)} of {len(near)}"


def _effects(cells: Found) -> Iterator[str]:
    for name, cell in cells.items():
        ci95, chance = cell["ci95"], cell["chance"]
        bounds = f"{ci95[0]:.1f} to {ci95[1]:.1f}" if ci95 else "no interval"
        apart = "" if chance is None else f"{chance:6.1f}"
        yield f"  {name:28}{cell['real']:8.1f}{cell['simulated']:8.1f}  {bounds:18}{apart}"


def _verdicts(changes: Iterable[Found]) -> Iterator[str]:
    every = [cell for cells in changes for cell in cells.values()]
    for verdict in VERDICTS:
        answers = [cell[verdict] for cell in every if cell[verdict] is not None]
        yield f"  {verdict}: {sum(answers)} of {len(answers)}"


if __name__ == "__main__":
    sys.exit(main())
