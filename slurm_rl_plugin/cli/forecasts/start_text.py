"""What the forecast service says, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, slurm_time, span_text

_HEADER = ("JOBID", "PARTITION", "START", "50 % BETWEEN", "90 % BETWEEN", *("10 MIN", "1 H", "1 D"))


def print_starts(document: Mapping[str, Any]) -> None:
    """Print a table of the jobs of which something is foretold, then what is to be said of each."""
    jobs, now = document["jobs"], float(document["foretold"])
    told = [job for job in jobs if job.get("forecast")]
    if not jobs:
        print("no job of yours waits in the last look at the queue.")
    if told:
        print_table(list(_HEADER), [_row(job, now) for job in told])
    for job in jobs:
        for line in _lines(job):
            print(f"{_name(job)}: {line}")
    notes = dict.fromkeys(filter(None, (document.get("old"), *(job.get("note") for job in jobs))))
    for note in notes:
        print(note)


def _row(job: Mapping[str, Any], now: float) -> list[Any]:
    forecast = job["forecast"]
    bands = [
        " to ".join(span_text(max(end - now, 0.0)) for end in forecast["bands"][part])
        for part in ("50 %", "90 %")
    ]
    start = f"{slurm_time(forecast['start'])} (in {span_text(forecast['start'] - now)})"
    chances = [f"{chance:.0%}" for chance in forecast["chances"].values()]
    return [_name(job), job.get("partition") or "-", start, *bands, *chances]


def _name(job: Mapping[str, Any]) -> str:
    return str(job["job"]) if job["job"] else "this job"


def _lines(job: Mapping[str, Any]) -> list[str]:
    lines = []
    if job.get("why_not"):
        lines.append(str(job["why_not"]))
    ahead, own = int(job["ahead"]), int(job["ahead_of_account"] or 0)
    if not job.get("why_not") or ahead:
        of_account = f", {own} of them of its account" if own else ""
        lines.append(
            f"behind {ahead} jobs of its partition{of_account}."
            if ahead
            else "first in its partition."
        )
    if job.get("tasks", 1) > 1:
        lines.append(f"it is an array: {job['tasks']} tasks wait, and this is of the first.")
    lines.extend(_advice(each) for each in job.get("advice", ()))
    return lines


def _advice(each: Mapping[str, Any]) -> str:
    low, high = (span_text(end) for end in each["interval"])
    killed = f"; {each['killed']:.1%} of such jobs run longer" if each["killed"] else ""
    return f"{each['words']}: {span_text(each['sooner'])} earlier [{low}, {high}]{killed}."
