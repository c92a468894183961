"""The roll-out's table is what `slurm-rl evaluate --config` says on three logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP, table_rows
from tests.functional.typed import Typed

TRACES = os.environ.get("SLURM_RL_TRACES")
#: The last 40 % of the jobs that ran, in the order of the table.
PARTS = (
    "SDSC-SP2-1998-4.2-cln.swf.gz@jobs=32420:54034",
    "HPC2N-2002-2.2-cln.swf.gz@jobs=121722:202871",
    "CTC-SP2-1996-3.1-cln.swf.gz@jobs=46323:77205",
)
LOGS = ("SDSC-SP2", "HPC2N", "CTC-SP2")
ROWS = [row for row in table_rows((TOP / "docs" / "rollout.md").read_text()) if len(row) == 5]


def test_the_weeks_use_settings_of_the_table() -> None:
    settings = {row[0] for row in ROWS}
    weeks = [row for row in table_rows((TOP / "docs" / "rollout.md").read_text()) if len(row) == 4]
    used = {row[0]: row[2].split(",")[0] for row in weeks}
    assert used == {"1": "any", "2": "336", "3": "72", "4": "336"}
    assert {used["2"], used["3"], "0"} <= settings
    (chosen,) = (row for row in ROWS if row[0] == used["2"])
    assert max(float(each) for each in chosen[1].split(",")) < 0.9
    assert max(float(each) for each in chosen[2].split(",")) < 1.2
    assert chosen[4] == "CTC-SP2"  # no setting passes week 2 there


@pytest.mark.study
@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"influence {row[0]} h")
@pytest.mark.parametrize("column", [0, 1, 2], ids=LOGS)
def test_what_a_setting_gives(typed: Typed, tmp_path: Path, row: list[str], column: int) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f"[hook]\ninfluence_hours = {row[0]}\n")
    log = str(Path(str(TRACES)) / PARTS[column])
    document = typed.json("evaluate", log, "--config", path)
    study, figures = document["study"], document["prediction"]["figures"]
    over = study["ratio_to_multifactor"]["default"]
    measured = [over[each] for each in ("bounded_slowdown", "longest_wait", "wide_wait")]
    shown = [float(cell.split(",")[column]) for cell in row[1:4]]
    assert shown == pytest.approx(measured, abs=0.0075)
    worse = any(figures[goal]["verdict"] == "worse" for goal in document["prediction"]["goals"])
    assert worse == (LOGS[column] in row[4].split(", "))
