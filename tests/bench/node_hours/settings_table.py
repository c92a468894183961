"""What tests.bench.node_hours.changed_settings found, for people: a line a cell, and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.bench.node_hours.effect_on_cell import VERDICTS

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
