"""What the audit log says, as sentences and a table that fit a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, printable, slurm_duration, slurm_time

#: Accounts shown; --json has them all.
ACCOUNTS = 8


def print_shadow(shadow: Mapping[str, Any]) -> None:
    """Print what the audit log says of shadow mode's cycles, and which jobs they would move."""
    if "unavailable" in shadow:
        print(f"The audit log is not reported: {shadow['unavailable']}")
        return
    for line in _shadow_lines(shadow):
        print(printable(line))
    _print_moves(shadow)


def _shadow_lines(shadow: Mapping[str, Any]) -> Iterator[str]:
    if not shadow["cycles"]:
        yield "The audit log has no cycle in this time."
    else:
        yield (
            f"Audit log: {slurm_time(shadow['first'])} to {slurm_time(shadow['last'])}, "
            f"{shadow['cycles']} cycles ({_counts(shadow['modes'])}), "
            f"{shadow['cycles_with_jobs']} of them with jobs to order, longest gap "
            f"{slurm_duration(shadow['longest_gap_seconds'])}."
        )
    yield (
        f"Jobs seen: {shadow['jobs_seen']}; writes that active mode would have sent: "
        f"{shadow['would_be_writes']}; writes sent: {shadow['writes']}."
    )
    yield (
        f"Fallbacks: {_counts(shadow['fallbacks'])}. Failed cycles: "
        f"{_counts(shadow['failures'])}. Guard rails that acted: {_counts(shadow['guard_rails'])}."
    )
    yield from _limit_lines(shadow["batch_limit"])
    if old := shadow["cycles_without_site_order"]:
        yield f"{old} cycles of an earlier release do not hold the site's own order."
    if shadow["bad_lines"]:
        yield f"{shadow['bad_lines']} lines are no lines of an audit log: left out."
    yield from shadow["unread"]


def _limit_lines(limit: Mapping[str, Any]) -> Iterator[str]:
    if limit["changes"]:
        yield (
            f"Reserve: a limit on batch jobs for {slurm_duration(limit['limited_seconds'])}, "
            f"{limit['lowest_limit'] or 0} processors at the lowest; changes: "
            f"{_counts(limit['changes'])}; lifted for wide jobs: {limit['lifted_for_wide_jobs']}."
        )


def _print_moves(shadow: Mapping[str, Any]) -> None:
    if not shadow["moves"]["job_cycles"]:
        print("How far the order would differ is not known: no job was ordered beside another.")
        return
    tau = shadow["kendall_tau"]
    known = "unknown" if tau is None else f"{tau:.3f}"
    further = shadow["moved_further_than"]
    print(f"Kendall's tau of the decided order and the site's: {known} (1: the same).")
    print(f"EARLIER, LATER: of the jobs of every cycle, moved by more than {further} ranks.")
    rows = [["all jobs", *shadow["moves"].values()]]
    rows += [[name, *each.values()] for name, each in shadow["classes"].items()]
    largest = sorted(shadow["accounts"].items(), key=lambda each: -each[1]["job_cycles"])
    rows += [[f"account {name}", *each.values()] for name, each in largest[:ACCOUNTS]]
    print_table(["JOBS", "JOB-CYCLES", "EARLIER", "LATER", "MEDIAN-MOVE"], rows)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
