"""docs/performance.md holds what was measured, and its verdicts are those of its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.made_part import with_part
from bench.speed.figures.measurements import MEASUREMENTS
from bench.speed.figures.page import BEGIN, END, main

NAME = "decide, 10,000 pending, median"


def line(now: float, met: bool) -> dict[str, Any]:
    return {"unit": "ms", "now": now, "goal": 3.0, "met": met, "floor": 1.5}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """What a run of both benchmarks leaves."""
    against = {"ratio": 0.5, "ci95": [0.45, 0.55], "worse": False}
    speed = {
        NAME: {**line(2.5, met=True), "before": 5.0, "against_before": against},
        "decide, 10,000 pending, p99": line(7.0, met=False),
        "of a measurement that is gone": line(1.0, met=True),
    }
    slurm = {"jobs": 200, "first": {"seconds": [1.0, 1.2], "standing": [1000, 999]}}
    tmp_path.joinpath("speed.json").write_text(json.dumps(speed))
    tmp_path.joinpath("slurm-queue.json").write_text(json.dumps(slurm))
    return tmp_path


def test_the_tables_tell_goals_floors_and_what_is_missed(kept: Path) -> None:
    document = kept / "page.md"
    document.write_text(f"Before.\n{BEGIN}\nold\n{END}\nBehind.\n")
    main([str(kept), str(document)])
    text = document.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith(f"{END}\nBehind.\n")
    assert "old" not in text
    assert f"| {NAME} | ms | 2.5 | 3 | met | 1.5 | 5 | 0.50 [0.45, 0.55] |" in text
    assert "| decide, 10,000 pending, p99 | ms | 7 | 3 | **missed** | 1.5 |  |  |" in text
    assert "gone" not in text
    assert "200 pending jobs" in text
    assert "| that stand | 999 | >= 1,000 | **missed** |" in text


def test_a_document_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        with_part("nothing here", BEGIN, END, "tables")


def test_the_page_tells_of_measurements_that_there_are() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "performance.md").read_text()
    told = text.partition(BEGIN)[2].partition(END)[0]
    names = {figure.name for _, figures in MEASUREMENTS.values() for figure in figures}
    rows = [row.split(" | ") for row in told.splitlines() if row.startswith("| ")]
    measured = {row[0].removeprefix("| ") for row in rows} & names
    assert measured >= {"decide, 10,000 pending, median", "cycle, 100,000 pending, median"}
    for name, _, now, goal, verdict, *_ in (row for row in rows if row[0][2:] in names):
        if goal:
            rate = next(
                f.rate for _, all_of in MEASUREMENTS.values() for f in all_of if f.name == name[2:]
            )
            value, bound = (float(each.replace(",", "")) for each in (now, goal))
            assert verdict == (
                "met" if (value >= bound if rate else value <= bound) else "**missed**"
            )
