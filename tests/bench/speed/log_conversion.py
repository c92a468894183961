"""`make bench`: a dump of ten million rows becomes parquet; rows a second, and the most memory.

    python -m tests.bench.speed.log_conversion --output bench-output

The dump (2.4 GB) is drawn there and removed again, unless it is kept with --keep. What is measured
runs in children: the conversion, and reading some weeks of the result as `train` does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from tests.bench.speed.sacct_log import write_sacct_log

WEEKS = """
import argparse, sys
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.evaluation.named_log import LogOptions
parser = argparse.ArgumentParser()
add_log_options(parser)
read_named_logs([sys.argv[1] + "@weeks=2"], LogOptions.of(parser.parse_args([])))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--local-times", action="store_true", help="2020-09-13T12:26:40 in the dump"
    )
    parser.add_argument("--keep", action="store_true", help="the dump, and use one that is there")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    dump = options.output / f"sacct-{options.rows}-{options.local_times:d}.txt"
    parquet = options.output / "sacct.parquet"
    if not (options.keep and dump.exists()):
        with parts_bar("drawing", options.rows) as progress:
            write_sacct_log(
                dump, options.rows, seed=options.seed,
                local_times=options.local_times, progress=progress,
            )  # fmt: skip
    program = [sys.executable, "-m", "slurm_rl_plugin.cli.entry"]
    found, convert = measured([*program, "convert", str(dump), "-o", str(parquet), "--json"])
    report = json.loads(found)
    convert |= {"rows": report["read"], "rows_per_second": report["read"] / convert["seconds"]}
    _, weeks = measured([sys.executable, "-c", WEEKS, str(parquet)])
    stored = {"dump": dump.stat().st_size, "parquet": parquet.stat().st_size}
    print(json.dumps({"convert": convert, "two weeks": weeks, "bytes": stored}, indent=2))
    parquet.unlink()
    if not options.keep:
        dump.unlink()


def measured(command: list[str]) -> tuple[str, dict[str, float]]:
    """What a child says, its seconds and the most memory that it had."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    figures = {
        "seconds": time.perf_counter() - begin,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    return said, figures


if __name__ == "__main__":
    main()
