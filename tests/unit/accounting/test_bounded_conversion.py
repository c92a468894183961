"""What a conversion holds in memory does not grow with the log, whatever that holds."""

import os
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.accounting import log_file
from slurm_rl_plugin.accounting.conversion import StoredRuns, convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.sacct.batches import RecordCutter
from slurm_rl_plugin.accounting.sacct.fields import Layout
from slurm_rl_plugin.accounting.stored.log import COLUMNS
from slurm_rl_plugin.errors import AccountingLogError
from tests.unit.accounting.test_conversion import FIELDS, same

HEADER = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS|State|SubmitLine"
LAYOUT = Layout(tuple(HEADER.lower().split("|")), trailing=False, header=HEADER)
#: Lines of which none is a row that stands for itself.
ODD_LINES = {
    "text": "no row at all",
    "blank": "",
    "header": HEADER,
    "cut off": "7|1000|1060|100",
    "a separator to spare": "7|1000|1060|100|4|COMPLETED|a | b",
    "faulty": "7|1000|1060|100|many|COMPLETED|sbatch",
}


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_what_waits_for_the_next_batch_is_a_few_lines(line):
    cutter = RecordCutter(LAYOUT)
    cutter.cut(b"1|1000|1060|100|4|COMPLETED|sbatch\n")
    batch = f"{line}\n".encode() * 500
    tracemalloc.start()
    try:
        for _ in range(3):
            cutter.cut(batch)
        waits, _ = tracemalloc.get_traced_memory()
        for _ in range(10):
            cutter.cut(batch)
        still, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert still - waits < 2 * len(batch) + 10_000


ODD = st.sampled_from(
    [
        FIELDS,
        "",
        "no row",
        "7|ann|physics|main|normal|1000|1000|1060",
        "7|ann|physics|main|normal|1000|1000|1060|1160|100|0:1|60||4|run|COMPLETED|a | b",
        "7|ann|physics|main|normal|1000|1000|1060|1160|100|0:1|60||4|first",
        "second|COMPLETED|sbatch",
        "7|ann|physics|main|normal|1000|1000|1060|1160|100|0:1|60||many|run|COMPLETED|sbatch",
        "7|ann|physics|main|normal|900|1000|1060|1160|100|0:1|60||4|run|COMPLETED|sbatch\r",
    ]
)


@settings(deadline=None, max_examples=25)
@given(
    runs=st.lists(st.tuples(ODD, st.sampled_from([1, 1, 2, 30, 60])), max_size=12),
    plain=st.booleans(),
    batch=st.integers(500, 5000),
)
def test_long_stretches_without_a_plain_row(tmp_path_factory, runs, plain, batch):
    row = "8|bob|physics|main|normal|1000|1000|1060|1160|100|0:1|60||4|run|COMPLETED|x"
    lines = [FIELDS, *([row] if plain else []), *(each for line, n in runs for each in [line] * n)]
    folder = tmp_path_factory.mktemp("odd")
    (folder / "log").write_bytes("\n".join(lines).encode())
    same(folder / "log", batch, 10)


def test_jobs_of_one_second_are_joined_in_parts(tmp_path):
    jobs = pl.DataFrame(
        {name: np.zeros(40) for name in COLUMNS}
    ).cast(COLUMNS).with_columns(job_id=pl.int_range(40))  # fmt: skip
    with StoredRuns(tmp_path, part=5) as runs:
        for batch in (jobs[:7], jobs[7:8], jobs[8:21], jobs[21:]):
            runs.add(batch)
        parts = list(runs.parts())
    assert pl.concat(parts)["job_id"].to_list() == list(range(40))
    assert max(part.height for part in parts) <= 10


@pytest.mark.parametrize("batch", [1 << 10, 1 << 14, 1 << 20])
@pytest.mark.parametrize("before", [0, 3])
def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch, batch, before):
    monkeypatch.setattr(log_file, "LONGEST_LINE", 1 << 13)
    row = "1|1000|1060|100|4|COMPLETED|sbatch\n"
    for length, fault in ((1 << 13, False), ((1 << 13) + 1, True)):
        line = row[:-1].ljust(length, "x") + "\n"
        (tmp_path / "log").write_text(HEADER + "\n" + row * before + line + row)
        if fault:
            with pytest.raises(AccountingLogError, match="line is longer than"):
                convert([tmp_path / "log"], tmp_path / "log.parquet", batch=batch)
        else:
            report = convert([tmp_path / "log"], tmp_path / "log.parquet", batch=batch)
            assert report == read_log(tmp_path / "log")[1]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AccountingLogError, match="this is a pipe; give the path of a log file"):
        convert([tmp_path / "pipe"], tmp_path / "jobs.parquet")
