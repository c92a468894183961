"""A log that was converted reads as the log itself does, in bounded memory; nothing stays."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tomllib
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.accounting import log_file
from slurm_rl_plugin.accounting.conversion import convert, parts_of, store_runs
from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import amounts_of, resources_text
from slurm_rl_plugin.accounting.sacct.batches import RecordCutter
from slurm_rl_plugin.accounting.sacct.fields import Layout
from slurm_rl_plugin.accounting.sacct.reader import SacctReader, SeenRecords
from slurm_rl_plugin.accounting.stored.log import COLUMNS, StoredLog
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import DAY
from tests.contracts.test_accounting_readers import CASES, LOGS, told

VALUES: dict[str, list[str]] = tomllib.loads((LOGS / "values_of_sacct.toml").read_text())
FIELDS = "|".join(VALUES)
NAMES = list(VALUES)
#: Mostly sound rows, as in a real dump; any value now and then.
ROWS = st.fixed_dictionaries(
    {
        name: st.one_of(*[st.just(each[0])] * 4, st.sampled_from(each))
        for name, each in VALUES.items()
    }
).map(lambda row: "|".join(row[name] for name in NAMES))
PIECES = st.one_of(
    ROWS,
    ROWS,
    ROWS,
    st.tuples(ROWS, st.integers(0, 80)).map(lambda cut: cut[0][: cut[1]]),
    st.sampled_from([FIELDS, "", "   ", "no row", "|" * 19, "a|b"]),
)


def outcome(read, path):
    """The table as comparable values and the report, or the words of what is refused."""
    try:
        log, report = read()
    except AccountingLogError as error:
        return str(error)
    if not report.kept:
        return f"{path}: {report.why_none_kept()}"
    columns = {
        name: [repr(value) for value in column.tolist()] if hasattr(column, "tolist") else column
        for name, column in told(log).items()
    }
    return columns, report


def converted(path, batch, part):
    output = path.with_suffix(".parquet")

    def read():
        report = convert([path], output, batch=batch, part=part)
        log, stored = read_log(output)
        assert stored == report
        return log, stored

    found = outcome(read, path)
    assert output.exists() is not isinstance(found, str)
    return found


def same(path, batch, part):
    directly, stored = outcome(lambda: read_log(path), path), converted(path, batch, part)
    assert stored == directly
    left = sorted(each.name for each in path.parent.iterdir() if each.name.startswith("."))
    assert left == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_form_of_log(case, ending, tmp_path):
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(case.text.replace("\n", ending).encode()))
    same(path, 50, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"01/02/2024 10:00:00;Q;1.srv;queue=x\n",  # no run ends
        b"\0\0abc|x\n",
        "\r\r\n".join([FIELDS, *(f"{n}|||||9|9|9|19|10||||1|||||OK|x" for n in range(9))]).encode(),
        f"{FIELDS}\n7|||||9|1970-01-01T00:00:00|9|19|10||||1|||||OK|x\n"
        "8|||||9|9|1970-01-01T00:00:00|19|10||||1|||||OK|x\n".encode(),
    ],
    ids=["PBS without a run", "binary", "returns of text before those of Windows", "the epoch"],
)
def test_what_is_odd_in_a_log_is_told_alike(content, tmp_path):
    (tmp_path / "log").write_bytes(content)
    same(tmp_path / "log", 60, 2)


@settings(deadline=None, max_examples=100)
@given(
    lines=st.lists(PIECES, max_size=25),
    twice=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
    trailing=st.booleans(),
    batch=st.integers(30, 3000),
    part=st.integers(1, 30),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_any_dump_of_sacct(tmp_path_factory, lines, twice, ending, trailing, batch, part, encoding):
    folder = tmp_path_factory.mktemp("dump")
    bar = "|" if trailing else ""
    text = "".join(each + bar + ending for each in [FIELDS, *lines, *(lines if twice else ())])
    (folder / "log").write_bytes(text.encode(encoding))
    same(folder / "log", batch, part)


SWF_NUMBERS = st.sampled_from(["-1", "0", "1", "7", "12", "300", "2.5", "1e3", "x", "9" * 17])


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.one_of(
            st.lists(st.sampled_from(["-1", "0", "1", "7", "12", "300"]), min_size=18, max_size=18),
            st.lists(SWF_NUMBERS, min_size=17, max_size=18),
        ).map(" ".join)
        | st.sampled_from(["; MaxProcs: 64", "; MaxNodes: 8", "", "  ;x"]),
        max_size=20,
    ),
    batch=st.integers(20, 900),
)
def test_any_workload_log(tmp_path_factory, rows, batch):
    folder = tmp_path_factory.mktemp("swf")
    (folder / "log").write_text("\n".join(["; Version: 2.2", *rows]) + "\n")
    same(folder / "log", batch, 5)


def test_several_dumps_are_one_log(tmp_path):
    rows = CASES["sacct with a header"].text.splitlines(keepends=True)
    for name, part in (("a", rows[:3]), ("b", [rows[0], *rows[2:]])):
        (tmp_path / name).write_text("".join(part))
    report = convert([tmp_path / "a", tmp_path / "b"], tmp_path / "all.parquet")
    log, _ = read_log(tmp_path / "all.parquet")
    assert log.job_id.tolist() == [1, 3]
    assert report.dropped == {"duplicate record": 1, "never ran": 1, "no processors": 1}
    assert report.read == 5


def test_a_conversion_that_keeps_no_job_is_refused(tmp_path):
    """PBS names the first record at fault, and two logs are counted together."""
    days = [tmp_path / f"2000010{n}" for n in (1, 2)]
    head = "01/01/2000 00:00:00;E;1.s;"
    days[0].write_text(f"{head}ctime=soon start=2 end=3 Resource_List.ncpus=1\n")
    days[1].write_text(f"{head}ctime=1 end=3 Resource_List.ncpus=1\n")
    output = tmp_path / "jobs.parquet"
    output.write_text("kept as it was")
    with pytest.raises(AccountingLogError) as caught:
        convert(days, output)
    assert str(caught.value) == (
        f"{days[0]}: with 1 more logs none of its 2 records is a job that ran (1 malformed record, "
        f"1 never ran; {days[0]}:1: ctime=soon is no time): give a log of jobs that have ended"
    )
    assert output.read_text() == "kept as it was"


def test_a_fault_is_told_by_its_line_and_nothing_is_written(tmp_path):
    rows = ["1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"] * 40
    (tmp_path / "log").write_text("\n".join([*rows, rows[0].replace("9", "nine"), *rows]))
    with pytest.raises(AccountingLogError, match="'nine' is no number") as caught:
        convert([tmp_path / "log"], tmp_path / "log.parquet", batch=200)
    assert (caught.value.line, caught.value.field) == (41, "9 (requested time)")
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_what_cannot_be_written_is_told(tmp_path):
    (tmp_path / "log").write_text(CASES["swf"].text)
    with pytest.raises(AccountingLogError, match="cannot be written"):
        convert([tmp_path / "log"], tmp_path / "none" / "log.parquet")


@pytest.mark.parametrize("harm", ["cut", "foreign", "turned"])
def test_a_broken_parquet_is_refused(harm, tmp_path):
    (tmp_path / "log").write_text(CASES["sacct with a header"].text)
    path = tmp_path / "log.parquet"
    convert([tmp_path / "log"], path)
    content = path.read_bytes()
    if harm == "foreign":
        pl.DataFrame({"a": [1]}).write_parquet(path)
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] if harm == "cut" else content[:60] + content[middle:])
    with pytest.raises(AccountingLogError, match=r"log\.parquet: .*convert"):
        read_log(path)


@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8))
def test_what_was_seen_before_is_told(batches):
    seen, known = SeenRecords(), set()
    for batch in batches:
        told = seen.seen_before(np.array(batch, dtype=np.uint64))
        assert told.tolist() == [
            each in known or each in batch[:place] for place, each in enumerate(batch)
        ]
        known |= set(batch)


HEADER = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS|State|SubmitLine"
LAYOUT = Layout(tuple(HEADER.lower().split("|")), trailing=False, header=HEADER)
#: Lines that are no rows by themselves.
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
    with ExitStack() as stored:
        runs, _ = store_runs([jobs[:7], jobs[7:8], jobs[8:21], jobs[21:]], tmp_path, stored, 5)
        parts = list(parts_of(runs, 5))
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


FILLS = """
import sys
from pathlib import Path
import polars as pl
from slurm_rl_plugin.accounting import conversion
def waits(runs, part):
    print(part, flush=True)
    sys.stdin.read()
conversion.parts_of = waits
conversion.convert([Path(sys.argv[1])], Path(sys.argv[1]).with_name("x.parquet"), part=4)
"""


def test_a_killed_conversion_leaves_nothing(tmp_path):
    log = tmp_path / "log"
    log.write_text(CASES["swf"].text)
    with subprocess.Popen(
        [sys.executable, "-c", FILLS, str(log)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "4\n"
        child.kill()
    assert list(tmp_path.iterdir()) == [log]


STOPS = """
import os, signal, sys
from pathlib import Path
from slurm_rl_plugin.accounting.conversion import convert
stops = iter([signal.SIGINT])
def stop(_):
    for number in stops:
        os.kill(os.getpid(), number)
try:
    convert([Path(sys.argv[1])], Path(f"{sys.argv[1]}.parquet"), progress=stop, batch=9999)
except KeyboardInterrupt:
    print("stopped once")
"""


def test_ctrl_c_interrupts_a_conversion_once_and_leaves_nothing(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n" * 50_000)
    child = subprocess.run(
        [sys.executable, "-c", STOPS, str(log)], capture_output=True, text=True, check=False
    )
    assert (child.stdout, child.stderr) == ("stopped once\n", "")
    assert list(tmp_path.iterdir()) == [log]


def test_what_was_being_written_when_it_was_killed_goes_a_day_later(tmp_path):
    (tmp_path / "log").write_text(CASES["swf"].text)
    old, young, others = (
        f".log.parquet.{0:016x}.part",
        f".log.parquet.{1:016x}.part",
        ".film.1.part",
    )
    for name, age in ((old, 2 * DAY), (young, 0.0), (others, 2 * DAY)):
        left = tmp_path / name
        left.write_text("half")
        os.utime(left, (left.stat().st_mtime - age,) * 2)
    convert([tmp_path / "log"], tmp_path / "log.parquet")
    assert {each.name for each in tmp_path.iterdir()} == {young, others, "log", "log.parquet"}


RESOURCES = st.sampled_from(["cpus", "memory", "gpus", "gres/gpu:a100", "license/a=b"])


@given(st.dictionaries(RESOURCES, st.floats(0, 1e9)))
def test_amounts_are_told_exactly(amounts):
    known = amounts_of(resources_text(amounts))
    assert known == {name: value for name, value in amounts.items() if value or name == "cpus"}


def stored(folder: Path, case: str) -> Path:
    (folder / "log").write_text(CASES[case].text)
    convert([folder / "log"], folder / "log.parquet")
    return folder / "log.parquet"


def test_part_of_a_file_holds_what_its_jobs_ask_for(tmp_path):
    part = StoredLog(stored(tmp_path, "sbatch")).log(1, 2)
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


FIRST, ROW = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS", "1|100|110|60|8"


def test_of_long_submit_lines_nothing_is_kept(tmp_path: Path) -> None:
    line = "sbatch " + "x" * 50_000
    rows = "".join(f"{job}|{job}|{job}|60|8|4Gn|{line}{job}\n" for job in range(1, 301))
    (tmp_path / "dump").write_text(f"{FIRST}|ReqMem|SubmitLine\n{rows}")
    tracemalloc.start()
    try:
        batches = SacctReader().jobs(LogFile(tmp_path / "dump", batch=1 << 20))
        assert sum(len(jobs) for jobs in batches) == 300
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(rows) / 3


def test_dumps_of_which_one_tells_no_tres_go_together(tmp_path):
    (tmp_path / "old").write_text(f"{FIRST}\n{ROW}\n")
    row = ROW.replace("100", "200").replace("110", "210")
    (tmp_path / "new").write_text(f"{FIRST}|ReqTRES\n{row}|cpu=4,mem=1G,gres/gpu:a=1\n")
    for batch in (10, 1000):
        convert([tmp_path / "old", tmp_path / "new"], tmp_path / "all.parquet", batch=batch, part=1)
        requests = read_log(tmp_path / "all.parquet")[0].requests
        np.testing.assert_array_equal(requests.total, [[8, 0, 0, 0], [4, 1024, 1, 1]])
