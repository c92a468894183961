"""Changes of slurm.conf: what they did on a real slurmctld, and what what-if says they would do.

Reads folders that the campaign beside it wrote, one without --change and one for each change,
and needs nothing that runs. First every repetition is simulated with its own slurm.conf, as
`fidelity` does. Then the jobs that the base recorded are simulated on the base's
machine and on the changed one, as `slurm-rl what-if` does, which knows no run of the change; its
intervals are over equal stretches of the time of submission, as what-if's are over weeks. Cells
are class and partition of a job in the base; those of a change have the jobs that it runs.
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
from tests.bench.live.compressed_time import CONTROLLER_LOG
from tests.bench.node_hours.campaign import changed_cluster
from tests.bench.node_hours.fidelity import agrees, as_simulated
from tests.bench.node_hours.figures import Run, cells_of, waits_of
from tests.bench.node_hours.simulated import delays_of, simulated_starts

#: What is asked of what was said.
VERDICTS = ("sign", "sign_beyond_chance", "sure_sign", "within", "near")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOnCell:
    """Mean wait after a change less that before, seconds.

    Attributes:
        jobs: that run in both.
        base: real mean wait before the change.
        real: effect on the real slurmctld.
        simulated: effect that what-if tells of the base's record.
        ci95: its interval; None where some draws have no such job.
        chance: the most that two real repetitions of the base differ by; None of one.
    """

    jobs: int
    base: float
    real: float
    simulated: float
    ci95: tuple[float, float] | None
    chance: float | None

    def verdicts(self) -> dict[str, bool | None]:
        """Whether it is told rightly; None where the question does not arise.

        `sign` counts an effect of 1 % of the wait, or a second, as none. `sign_beyond_chance` is
        asked where the real effect is more than chance, `sure_sign` where the interval leaves out
        none. `near` is within 15 % of the wait before, or a second.
        """
        ci95, least = self.ci95, max(SMALL * self.base, FEW_SECONDS)
        real, simulated = (
            int(np.sign(each)) if abs(each) > least else 0 for each in (self.real, self.simulated)
        )
        sure = ci95 is not None and (ci95[0] > 0.0 or ci95[1] < 0.0) and simulated != 0
        beyond = self.chance is not None and real != 0 and abs(self.real) > self.chance
        return {
            "sign": real == simulated,
            "sign_beyond_chance": real == simulated if beyond else None,
            "sure_sign": real == simulated if sure else None,
            "within": ci95[0] <= self.real <= ci95[1] if ci95 else None,
            "near": agrees(self.real, self.simulated, self.base),
        }


Told = Mapping[str, Any]


def table_of(result: Told) -> str:
    """Mean waits under each setting, then the effect of each change; counts of both at the end."""
    lines: list[str] = []
    for change, cells in result["cells"].items():
        lines += [f"{change or 'as it is'}: MEAN WAIT, REAL AND SIMULATED, S; * DIFFERS"]
        lines += [*_waits(cells), _agreeing([cells])]
    for change, cells in result["effects"].items():
        lines += [f"{change}: EFFECT, REAL, SIMULATED, INTERVAL, CHANCE"]
        lines += [*_effects(cells), *_verdicts([cells])]
    every = result["effects"].values()
    return "\n".join(
        [*lines, "ALL OF THEM", _agreeing(result["cells"].values()), *_verdicts(every)]
    )


def _waits(cells: Told) -> Iterator[str]:
    for name, cell in cells.items():
        told = [
            f"{real:8.1f} {ours:8.1f}{' ' if near else '*'}"
            for real, ours, near in zip(*cell.values(), strict=True)
        ]
        yield f"  {name:28}{' '.join(told)}"


def _agreeing(settings: Iterable[Told]) -> str:
    near = [each for cells in settings for cell in cells.values() for each in cell["agrees"]]
    return f"  cells that agree: {sum(near)} of {len(near)}"


def _effects(cells: Told) -> Iterator[str]:
    for name, cell in cells.items():
        ci95, chance = cell["ci95"], cell["chance"]
        bounds = f"{ci95[0]:.1f} to {ci95[1]:.1f}" if ci95 else "no interval"
        apart = "" if chance is None else f"{chance:6.1f}"
        yield f"  {name:28}{cell['real']:8.1f}{cell['simulated']:8.1f}  {bounds:18}{apart}"


def _verdicts(changes: Iterable[Told]) -> Iterator[str]:
    every = [cell for cells in changes for cell in cells.values()]
    for verdict in VERDICTS:
        asked = [cell[verdict] for cell in every if cell[verdict] is not None]
        yield f"  {verdict}: {sum(asked)} of {len(asked)}"


#: Equal stretches of the time of submission; those without a job are left out.
STRETCHES = 20
Cells = Mapping[str, BoolArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The repetitions under one slurm.conf; waits in seconds, NaN of jobs that were not sent.

    Attributes:
        folders: of each repetition.
        runs: what each recorded.
        real: waits of the jobs of the stretch in each, shape [repetitions, jobs].
        simulated: waits of the same, each with its own submissions and run times.
    """

    folders: Sequence[Path]
    runs: Sequence[Run]
    real: FloatArray
    simulated: FloatArray

    @classmethod
    def read(cls, folder: Path, count: int = 0) -> Setting:
        """From the campaign's folder; `count` jobs are in the stretch, 0 for all of the run."""
        folders = sorted(path.parent for path in folder.glob("rep*/jobs.json"))
        if not folders:
            sys.exit(f"{folder} has no rep1/jobs.json: run tests.bench.node_hours.campaign first.")
        runs = [json.loads(each.joinpath("jobs.json").read_text()) for each in folders]
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
        """Its words."""
        return str(self.runs[0].get("change", ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="what the campaign wrote without --change")
    parser.add_argument("changed", type=Path, nargs="+", help="and with one, a folder each")
    chosen = parser.parse_args(arguments)
    base = Setting.read(chosen.base)
    changed = [Setting.read(folder, base.real.shape[1]) for folder in chosen.changed]
    cells = {" ".join(name): mask for name, mask in cells_of(base.runs[0]).items()}
    result = {
        "cells": {each.change: agreement(each, cells) for each in (base, *changed)},
        "effects": {each.change: _judged(base, each, cells) for each in changed},
    }
    write_whole(chosen.base / "changed-settings.json", json.dumps(result, indent=2) + "\n")
    print(table_of(result))
    return 0


def agreement(setting: Setting, cells: Cells) -> dict[str, dict[str, list[float]]]:
    """Of each cell the real and the simulated mean wait in each repetition."""
    ran, found = np.isfinite(setting.real[0]), {}
    for name, mask in cells.items():
        if (jobs := mask & ran).any():
            real, ours = (
                side[:, jobs].mean(axis=1).tolist() for side in (setting.real, setting.simulated)
            )
            near = list(map(agrees, real, ours))
            found[name] = {"real": real, "simulated": ours, "agrees": near}
    return found


def _judged(base: Setting, changed: Setting, cells: Cells) -> dict[str, dict[str, Any]]:
    found = effects_on(base, changed, what_if_waits(base, changed.change), cells)
    return {name: asdict(cell) | cell.verdicts() for name, cell in found.items()}


def what_if_waits(base: Setting, change: str) -> FloatArray:
    """Waits of the jobs that each repetition of the base recorded, on the changed machine."""
    found = []
    for folder, run in zip(base.folders, base.runs, strict=True):
        cluster, delays = read_cluster(folder), delays_of(folder / f"{CONTROLLER_LOG}.gz")
        machine = changed_cluster(cluster, change).machine
        starts = simulated_starts(run["jobs"], machine, delays, before=cluster.machine)
        found.append(starts - np.array([job["outcome"]["eligible"] for job in run["jobs"]]))
    return np.array(found)


def effects_on(
    base: Setting, changed: Setting, what_if: FloatArray, cells: Cells
) -> dict[str, EffectOnCell]:
    """The effect of a change on each cell; jobs' waits are means over the repetitions."""
    before, after = base.real.mean(axis=0), changed.real.mean(axis=0)
    told, shown = base.simulated.mean(axis=0), what_if.mean(axis=0)
    ran = np.isfinite(after) & np.isfinite(shown)
    blocks = _stretches(np.array([job["submit"] for job in base.runs[0]["jobs"]])[ran])
    found = {}
    for name, cell in cells.items():
        mask, jobs = cell & ran, np.flatnonzero(cell[ran])
        if not len(jobs):
            continue
        drawn = blocks.means(shown[mask], jobs) - blocks.means(told[mask], jobs)
        apart = np.ptp(base.real[:, mask].mean(axis=1))
        effect = float((shown - told)[mask].mean())
        found[name] = EffectOnCell(
            jobs=len(jobs),
            base=float(before[mask].mean()),
            real=float((after - before)[mask].mean()),
            simulated=effect,
            ci95=widened(drawn, effect, blocks.count),
            chance=float(apart) if len(base.real) > 1 else None,
        )
    return found


def _stretches(submit: FloatArray) -> Blocks:
    """Equal stretches of the time of submission, drawn again."""
    since = (submit - submit[0]) / max(float(submit[-1] - submit[0]), 1.0)
    place = np.minimum((since * STRETCHES).astype(np.int64), STRETCHES - 1)
    return Blocks.of_stretches(place, "stretches", np.random.default_rng(1))


def _by_place(run: Run, count: int) -> FloatArray:
    """Waits by the job's place in the stretch."""
    found = np.full(count or len(run["jobs"]), np.nan)
    found[run.get("places", range(len(run["jobs"])))] = waits_of(run)
    return found


if __name__ == "__main__":
    sys.exit(main())
