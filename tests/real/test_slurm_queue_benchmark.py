"""`make bench-slurm` measures what it says, on a small queue; its figures say nothing here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.cli.benchmark import fewest_writes
from tests.bench.speed.slurm_queue import PARTS, jobs_out_of_order, main
from tests.real.conftest import skip_without_daemons

SMALL = "--jobs 200 --orderings 1 --cycles 2 --pairs 1 --period 3"


@pytest.mark.real
def test_every_part_on_a_small_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skip_without_daemons()
    main([*SMALL.split(), "--output", str(tmp_path)])
    report = json.loads((tmp_path / "slurm-queue.json").read_text())
    assert {*PARTS, "jobs"} == set(report)
    (by_hook,), (by_scontrol,) = report["order"]["hook"], report["order"]["scontrol"]
    assert min(by_hook["writes"], by_scontrol["writes"]) > 150
    assert [each["writes"] - each["minimum"] for each in report["steady"]["cycles"]] == [0, 0]
    (hooked,), (alone,) = report["live"]["with_hook"], report["live"]["without_hook"]
    assert (len(hooked["hook_seconds"]), alone["hook_seconds"]) == (1, [])
    assert min(hooked["cycles"]["main"], alone["cycles"]["main"]) > 0
    assert "goal writes = minimum: met" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("priority", "fewest", "out_of_order"),
    [
        ([50, 40, 30], 0, 0),
        ([40, 50, 30], 1, 1),
        ([50, 51, 49], 1, 1),
        ([60, 50, 5, 49, 48], 2, 1),  # no whole number lies between 50 and 49
        ([9, 2, 1], 0, 0),
        ([9, 1, 1], 1, 1),  # nothing goes below 1
    ],
)
def test_the_minimum(priority: list[int], fewest: int, out_of_order: int) -> None:
    assert fewest_writes(np.array(priority)) == fewest
    assert jobs_out_of_order(priority) == out_of_order
