"""Logs of a few lines, and what is read of each: the cases of tests/assets/accounting_logs/cases.

A case names its log and what it expects: columns of the log (names in place of their numbers),
fields of the report, or the error with its line and field.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.pbs.reader import PbsReader
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.accounting.sbatch.reader import SbatchReader
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.errors import AccountingLogError
from tests.contracts.test_accounting_readers import LOGS

READERS: dict[str, type[AccountingReader]] = {
    "pbs": PbsReader,
    "sacct": SacctReader,
    "sbatch": SbatchReader,
    "swf": SwfReader,
}


def cases() -> Iterator[object]:
    for path in sorted((LOGS / "cases").glob("*.toml")):
        for name, case in tomllib.loads(path.read_text()).items():
            yield pytest.param(path.stem, case, id=f"{path.stem}: {name}")


def plainly(log: JobLog) -> dict[str, Any]:
    """The columns of a log as lists, names and amounts by what they are called."""
    told = {each.name: getattr(log, each.name) for each in fields(log)}
    for name, names in (("account", "accounts"), ("user", "users"), ("partition", "partitions")):
        told[name] = [told[names][place] for place in told[name]]
    if (asked := told.pop("requests")) is not None:
        told |= {each.name: getattr(asked, each.name) for each in fields(asked)}
        told["constraint"] = [asked.constraints[place] for place in asked.constraint]
        rows = [dict(zip(asked.names, row, strict=True)) for row in asked.total.tolist()]
        told["amounts"] = [{name: n for name, n in row.items() if n} for row in rows]
    return told


def as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(("kind", "case"), list(cases()))
def test_a_small_log(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(case.pop("log"), newline="")
    if "error" in case:
        with pytest.raises(AccountingLogError) as caught:
            READERS[kind]().read(path)
        assert re.search(case["error"], str(caught.value)), str(caught.value)
        assert (caught.value.line, caught.value.field) == (case.get("line"), case.get("field"))
        return
    log, report = read_log(path)  # which sees by the content what it is
    assert log.kind == kind
    told = plainly(log) | {each.name: getattr(report, each.name) for each in fields(report)}
    told["asks"] = log.requests is not None
    for name, expected in case.items():
        found = told[name]
        found = list(found) if isinstance(found, tuple) else as_list(found)
        np.testing.assert_equal(found, expected, err_msg=name)


def test_a_published_week_of_a_university_cluster():
    folder = os.environ.get("SLURM_RL_TRACES")
    path = Path(folder or ".") / "ubhpc" / "workload_week.events.gz"
    if folder is None or not path.exists():
        pytest.skip("SLURM_RL_TRACES names no folder with ubhpc/workload_week.events.gz")
    log, report = read_log(path)
    assert (report.read, report.dropped) == (19579, {"never ran": 27})
    asked = log.requests
    assert asked.total.max(axis=0).tolist() == [256.0, 12_000_000.0, 8.0]
    assert np.count_nonzero(asked.of("gpus")) == 73
    assert np.count_nonzero(asked.of("memory") == 0) == 425
    assert asked.exclusive.sum() == 177
    assert asked.constraints == ("", "CPU-Gold-6130", "CPU-Gold-6230")
    assert np.isnan(log.start).all()
