"""`slurm-rl convert`: convert accounting logs of any size into one parquet file, a LOG."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import files_of
from slurm_rl_plugin.cli.argument_types import result_file
from slurm_rl_plugin.cli.log_arguments import warn_of_malformed
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The logs to convert and the parquet file to write."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        type=Path,
        help="a log in SWF or of sbatch events, dumps of sacct of one cluster, files or folders of "
        "PBS, months of F-DATA, PM100, or pods of openb",
    )
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        required=True,
        metavar="LOG.parquet",
        help="the file to write; it is written whole or not at all",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Convert, and print how many records were kept and dropped."""
    output: Path = options.output
    if output.suffix != ".parquet":
        raise ConfigurationError(f"-o {output} must end in .parquet.")
    output = result_file("-o", output)
    size = sum(_size(file) for file in files_of(options.logs))
    begin = time.monotonic()
    with parts_bar("converting", max(size, 1)) as progress:
        report = convert(options.logs, output, progress=progress)
    seconds = time.monotonic() - begin
    warn_of_malformed(report)
    rows = [["kept", report.kept]]
    rows += [[f"dropped: {reason}", count] for reason, count in sorted(report.dropped.items())]
    rows += [[f"kept, but {oddity}", count] for oddity, count in sorted(report.noticed.items())]

    def show() -> None:
        print_table(["RECORDS", "NUMBER"], rows)
        print(f"wrote {output}: {report.kept:,} of {report.read:,} records in {seconds:.1f} s")

    return answer(options, {**asdict(report), "seconds": seconds}, show)


def _size(path: Path) -> int:
    """Size in bytes; 0 for a missing file, which the reader reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
