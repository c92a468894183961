"""`make faults`: tries every fault on a cluster of its own; prints a table, writes faults.json.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; about a minute for each fault.
Each fault has a folder in --output: faults with a result are not tried again, unless --again is
given. Exit code 1 if a fault was not survived.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.faults.every_fault import FAULTS
from tests.bench.faults.injection import Injection
from tests.bench.faults.scene import Fault, clock_library
from tests.bench.report import with_part, write_document
from tests.real.slurm_releases import RELEASES

#: Time-out of a fault's process, seconds; many kills take long.
_PATIENCE = 3600.0
Result = Mapping[str, Any]
#: Lines around the table.
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
_HEAD = (
    "| fault | metric that shows it | line of the log | recovered after | jobs | harmed "
    "| factors left |",
    "|---|---|---|---|---|---|---|",
)
HARM = ("lost", "held", "failed", "starved")
LEFT = ("factors_left", "factors_after_kill")


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries what has no result yet; 1 if a fault was not survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("faults-output"))
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="faults with it in their name")
    parser.add_argument("--again", action="store_true", help="try faults with a result too")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="clusters")
    parser.add_argument("--release", choices=list(RELEASES), help="default: the installed Slurm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, help="Markdown whose table of faults is made anew")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    faults = [fault for fault in FAULTS if _is_wanted(fault, chosen)]
    with (
        progress_bar("faults", len(faults), "survived") as progress,
        ThreadPoolExecutor(chosen.at_once) as pool,
    ):
        survived = 0
        results = pool.map(lambda fault: _tried(fault, chosen), faults)
        for done, found in enumerate(results, start=1):
            survived += found["survived"]
            progress(done, survived)
            words = "survived" if found["survived"] else "; ".join(found["complaints"])[:600]
            sys.stderr.write(f"{found['name']}: {words} ({found['seconds']:.0f} s)\n")
    kept = (chosen.output / fault.folder / "result.json" for fault in FAULTS)
    found = [json.loads(path.read_text()) for path in kept if path.exists()]
    write_document(chosen.output / "faults.json", found)
    text = f"{summary_of(found)}\n\n{table_of(found)}"
    print(text)
    if chosen.page:
        write_whole(chosen.page, with_part(chosen.page.read_text(), BEGIN, END, text))
    return 0 if all(each["survived"] for each in found) else 1


def _is_wanted(fault: Fault, chosen: argparse.Namespace) -> bool:
    if fault.clock and chosen.release:
        sys.stderr.write(f"{fault.name}: not tried, libfaketime is not in another release's root\n")
        return False
    if fault.clock and clock_library() is None:
        sys.stderr.write(f"{fault.name}: not tried, libfaketime is not installed (apt: faketime)\n")
        return False
    return not chosen.only or any(text in fault.name for text in chosen.only)


def _tried(fault: Fault, chosen: argparse.Namespace) -> dict[str, Any]:
    """The kept result of a fault, or that of a new trial."""
    folder = chosen.output.resolve() / fault.folder
    kept = folder / "result.json"
    if chosen.again or not _same_trial(kept, chosen):
        kept.unlink(missing_ok=True)
        words = ["-m", "tests.bench.faults.injection", fault.name, str(folder)]
        words += ["--release", chosen.release] if chosen.release else []
        with (chosen.output / f"{fault.folder}.out").open("wb") as out:
            subprocess.run(
                [sys.executable, *words, "--seed", str(chosen.seed)],
                stdout=out,
                stderr=out,
                timeout=_PATIENCE,
                check=False,
            )
    if not kept.exists():
        return Injection(name=fault.name, error=f"no result: see {folder}.out").as_json()
    result: dict[str, Any] = json.loads(kept.read_text())
    return result


def _same_trial(kept: Path, chosen: argparse.Namespace) -> bool:
    """Whether there is a result of this release and seed."""
    if not kept.exists():
        return False
    result = json.loads(kept.read_text())
    return (result.get("release"), result.get("seed")) == (chosen.release, chosen.seed)


def table_of(results: Sequence[Result]) -> str:
    """A row for each fault."""
    known = {fault.name: fault for fault in FAULTS}
    rows = list(_HEAD)
    for each in results:
        fault = known[each["name"]]
        harmed, left = (sum(len(each[name]) for name in names) for names in (HARM, LEFT))
        cells = (
            fault.name,
            fault.sign.words if each["metric"] else "none",
            f"`{fault.log}`" if each["log"] else "none",
            "no"
            if each["recovery"] is None
            else f"{each['recovery']:.1f} s of {each['allowed']:.0f}",
            str(each["jobs"]),
            str(harmed),
            str(left),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def summary_of(results: Sequence[Result]) -> str:
    """A line with the totals."""
    jobs = sum(each["jobs"] for each in results)
    harm = {name: sum(len(each[name]) for each in results) for name in (*HARM, *LEFT)}
    survived = sum(each["survived"] for each in results)
    shown = sum(each["metric"] and each["log"] for each in results)
    return (
        f"{len(results)} faults injected, {survived} survived; of {jobs:,} jobs "
        f"{harm['lost']} lost, {harm['held']} held, {harm['failed']} failed, "
        f"{harm['starved']} starved; "
        f"{harm['factors_left'] + harm['factors_after_kill']} factors left; "
        f"{shown} shown by a metric and a line of the log."
    )


if __name__ == "__main__":
    sys.exit(main())
