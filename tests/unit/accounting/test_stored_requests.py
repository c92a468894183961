"""What jobs ask of nodes goes into the parquet file and comes back; old files know nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.resource_amounts import amounts_of, resources_text
from slurm_rl_plugin.accounting.stored.log import StoredLog
from slurm_rl_plugin.errors import AccountingLogError
from tests.contracts.test_accounting_readers import CASES

NAMES = st.sampled_from(["cpus", "memory", "gpus", "gres/gpu:a100", "license/a=b"])


@given(st.dictionaries(NAMES, st.floats(0, 1e9)))
def test_amounts_are_told_exactly(amounts):
    known = amounts_of(resources_text(amounts))
    assert known == {name: value for name, value in amounts.items() if value or name == "cpus"}


def stored(folder: Path, case: str) -> Path:
    (folder / "log").write_text(CASES[case].text)
    convert([folder / "log"], folder / "log.parquet")
    return folder / "log.parquet"


def test_part_of_a_file_holds_what_its_jobs_ask_for(tmp_path):
    part = StoredLog(stored(tmp_path, "sbatch")).log(1, 2)
    assert part.requests is not None
    np.testing.assert_array_equal(part.requests.total, [[4, 8192, 0]])
    nothing = StoredLog(tmp_path / "log.parquet").stretches([(5000.0, 6000.0)])
    assert nothing.requests is not None
    assert len(nothing.requests) == 0


def test_a_file_of_the_first_version_knows_no_requests(tmp_path):
    path = stored(tmp_path, "swf")
    described = json.loads(pl.read_parquet_metadata(path)["slurm_rl_log"])
    assert described["version"] == 2
    first = {"slurm_rl_log": json.dumps(described | {"version": 1})}
    pl.read_parquet(path).write_parquet(path, metadata=first)
    log, _ = read_log(path)
    assert log.requests is None
    assert len(log) == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [("resources", "cpus=x"), ("resources", "memory=-1"), ("nodes", -1), ("cpus_per_task", 0)],
)
def test_a_damaged_request_is_refused(tmp_path, column, value):
    path = stored(tmp_path, "sbatch")
    metadata = {"slurm_rl_log": pl.read_parquet_metadata(path)["slurm_rl_log"]}
    jobs = pl.read_parquet(path)
    harmed = pl.lit(value).cast(jobs.schema[column]).alias(column)
    jobs.with_columns(harmed).write_parquet(path, metadata=metadata)
    with pytest.raises(AccountingLogError, match="damaged; convert the log again"):
        read_log(path)
