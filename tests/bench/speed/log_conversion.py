"""`make bench`: converts a dump of ten million rows to parquet; rows per second and memory.

The dump has 2.4 GB. Child processes are measured: the conversion, and reading two weeks of the
result as `train` does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS

#: Rows drawn at a time.
BLOCK = 250_000
#: Of a thousand rows: number with a separator in the submit line, with a line break in it, of jobs
#: cancelled before they ran, of running jobs, and of repeated rows.
ODD = {"bars": 2, "breaks": 1, "cancelled": 30, "running": 2, "twice": 1}
_BEGIN = 1_600_000_000


def write_sacct_log(path: Path, rows: int, *, seed: int, local_times: bool = False) -> None:
    """Writes a dump with a header; rows are roughly in the order of submission.

    Args:
        rows: number of records without repeated rows.
        local_times: local times, sacct's default; else seconds.
    """
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        file.write(("|".join(SACCT_FIELDS) + "\n").encode())
        for first in range(0, rows, BLOCK):
            block = _block(rng, first, min(BLOCK, rows - first), local_times)
            block.write_csv(file, include_header=False, separator="|", quote_style="never")


def _block(rng: np.random.Generator, first: int, rows: int, local_times: bool) -> pl.DataFrame:
    job = np.arange(first, first + rows)
    submit = _BEGIN + job * 3 + rng.integers(0, 600, rows)
    eligible = submit + np.where(rng.random(rows) < 0.05, rng.integers(1, 600, rows), 0)
    start = eligible + rng.exponential(7200, rows).astype(np.int64)
    ran = 1 + rng.lognormal(6, 2, rows).astype(np.int64)
    fate = _fates(rng, rows)
    limit = rng.choice([10, 60, 240, 1440, 2880, 10080], rows)
    user = rng.integers(0, 3000, rows)
    times = {"Submit": submit, "Eligible": eligible, "Start": start, "End": start + ran}
    columns = {name: pl.Series(values) for name, values in times.items()}
    texts = {name: _times(each, local_times) for name, each in columns.items()}
    unknown = pl.Series(["Unknown"]).new_from_index(0, rows)
    for name in ("Start", "End"):
        hidden = fate == "cancelled" if name == "Start" else np.isin(fate, ["cancelled", "running"])
        texts[name] = unknown.zip_with(pl.Series(hidden), texts[name])
    line = pl.format("sbatch --time={} --ntasks={} /home/user{}/project/run_{}.sh", "TimelimitRaw",
                     "NCPUS", pl.lit(pl.Series(user)), pl.lit(pl.Series(job % 1000)))  # fmt: skip
    cpus = pl.Series(2 ** rng.integers(0, 8, rows))
    nodes = (cpus + 31) // 32
    memory = pl.Series(rng.integers(1, 64, rows))
    amounts = (cpus, cpus, memory * nodes, nodes)
    tres = pl.select(pl.format("billing={},cpu={},mem={}G,node={}", *amounts)).to_series()
    state = pl.Series([_STATES[each] for each in fate])
    frame = pl.DataFrame(
        {
            "Cluster": pl.Series(["alpha"]).new_from_index(0, rows),
            "JobIDRaw": pl.Series(job + 1).cast(pl.String),
            "User": _named("user", user),
            "Account": _named("department", user % 500),
            "Partition": _named("part", rng.integers(0, 12, rows)),
            "QOS": _named("qos", rng.integers(0, 4, rows)),
            "Constraints": pl.Series(_CONSTRAINTS).gather(rng.integers(0, len(_CONSTRAINTS), rows)),
            **texts,
            "ElapsedRaw": pl.Series(np.where(fate == "cancelled", 0, ran)).cast(pl.String),
            "TimelimitRaw": pl.Series(limit).cast(pl.String),
            "NCPUS": cpus.cast(pl.String),
            "NNodes": nodes.cast(pl.String),
            "ReqTRES": tres,
            "Flags": pl.Series(["SchedBackfill"]).new_from_index(0, rows),
            "JobName": _named("run_", job % 1000),
            "State": state,
        }
    ).with_columns(SubmitLine=line + pl.lit(pl.Series([_TAILS.get(each, "") for each in fate])))
    twice = np.repeat(np.arange(rows), 1 + (fate == "twice"))
    # in the order of the header, which repeats a field
    ordered = frame.select(pl.col(name).alias(str(at)) for at, name in enumerate(SACCT_FIELDS))
    return ordered[twice]


#: One in a hundred has a separator.
_CONSTRAINTS = [*[""] * 79, *["skylake"] * 20, "skylake|icelake"]
_STATES = {
    **dict.fromkeys(("plain", "bars", "breaks", "twice"), "COMPLETED"),
    "cancelled": "CANCELLED by 1000",
    "running": "RUNNING",
}
_TAILS = {"bars": " --wrap=a | b || c", "breaks": " --wrap=first\nsecond line"}


def _fates(rng: np.random.Generator, rows: int) -> np.ndarray:
    drawn = rng.integers(0, 1000, rows)
    return np.repeat(["plain", *ODD], [1000 - sum(ODD.values()), *ODD.values()])[drawn]


def _named(prefix: str, numbers: np.ndarray) -> pl.Series:
    return prefix + pl.Series(numbers).cast(pl.String)


def _times(seconds: pl.Series, local: bool) -> pl.Series:
    if not local:
        return seconds.cast(pl.String)
    return pl.from_epoch(seconds, time_unit="s").dt.to_string("%Y-%m-%dT%H:%M:%S")


WEEKS = """
import argparse, sys
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.evaluation.named_log import LogOptions
parser = argparse.ArgumentParser()
add_log_options(parser)
read_named_logs([sys.argv[1] + "@weeks=2"], LogOptions.of(parser.parse_args([])))
"""


def conversion_figures(folder: Path, rows: int = 10_000_000) -> dict[str, float]:
    """Rows per second of a conversion, and MB of it and of reading two weeks of the result."""
    dump, parquet = folder / "sacct.txt", folder / "sacct.parquet"
    write_sacct_log(dump, rows, seed=1)
    program = [sys.executable, "-m", "slurm_rl_plugin.cli.entry"]
    begin = time.perf_counter()
    said, memory = measured([*program, "convert", str(dump), "-o", str(parquet), "--json"])
    seconds = time.perf_counter() - begin
    _, of_weeks = measured([sys.executable, "-c", WEEKS, str(parquet)])
    return {
        "conversion of 10 million rows": json.loads(said)["read"] / seconds,
        "conversion of 10 million rows, memory": memory,
        "two weeks of 10 million rows, memory": of_weeks,
    }


def measured(command: list[str]) -> tuple[str, float]:
    """Output of a child process, and its largest memory in MB."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    return said, usage.ru_maxrss * 1024 / 1e6
