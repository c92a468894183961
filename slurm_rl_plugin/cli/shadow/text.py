"""The shadow report as sentences and tables that fit a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import (
    WAIT_UNITS,
    print_table,
    printable,
    slurm_duration,
    slurm_time,
    waiting_time,
)

#: Accounts shown; --json has them all.
ACCOUNTS = 8
#: Where so many times the jobs would be needed to tell a difference, there is hardly one.
_NEXT_TO_NONE = 20
#: What figures are called.
NAMES = {
    "mean_wait": "mean wait",
    "median_wait": "median wait",
    "p95_wait": "95 % wait at most",
    "within_120s": "waited 120 s at most",
    "mean_bounded_slowdown": "mean bounded slowdown",
    "fairness": "fairness",
}


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


def print_prediction(prediction: Mapping[str, Any]) -> None:
    """What the replay tells, and the verdict."""
    print()
    if "unavailable" in prediction:
        print(printable(f"No replay: {prediction['unavailable']}"))
        return
    print(
        f"Replay of {prediction['jobs']} jobs on {prediction['processors']} processors with EASY "
        f"backfilling; {prediction['counted_jobs']} counted, without those at both ends."
    )
    if price := prediction.get("reserve_price"):
        parts = [f"{figure_name(name)} times {ratio:.3f}" for name, ratio in price.items()]
        print(f"Price of the reserve, beside the same order without: {', '.join(parts)}.")
    if dropped := prediction["dropped"]:
        print(f"Jobs that are left out: {_counts(dropped)}.")
    print("native: as recorded. native order: the recorded order on the simulated machine.")
    print(
        f"I-, B-: interactive and batch jobs. Waits are {WAIT_UNITS}. BSLD: mean bounded slowdown."
    )
    _print_policies(prediction["policies"])
    _print_widths(prediction["widths"])
    print(f"\n{prediction['model']} beside the {prediction['compared_with']}:")
    rows = []
    for name, each in prediction["figures"].items():
        values = [_shown(name, each[key]) for key in ("model", "site", "difference")]
        interval = _interval(name, each["ci95"])
        rows.append([figure_name(name), each["jobs"], *values, interval, each["verdict"]])
    header = ["FIGURE", "JOBS", "MODEL", "SITE", "DIFFERENCE", "(95 %)", "VERDICT"]
    print_table(header, rows)
    print(f"\n{verdict_sentence(prediction)}")
    if prediction["warning"]:
        print(prediction["warning"])
    print(f"The replay does not know: {'; '.join(prediction['not_known'])}.")


def _print_policies(policies: Mapping[str, Mapping[str, Any]]) -> None:
    columns = {
        "I-WAIT": "interactive_mean_wait",
        "I-MEDIAN": "interactive_median_wait",
        "I-P95": "interactive_p95_wait",
        "I<=120S": "interactive_within_120s",
        "B-WAIT": "batch_mean_wait",
        "B-MEDIAN": "batch_median_wait",
        "B-P95": "batch_p95_wait",
        "BSLD": "mean_bounded_slowdown",
        "F": "fairness",
    }
    rows = [
        [name, *(_shown(key, each[key]) for key in columns.values())]
        for name, each in policies.items()
    ]
    print_table(["POLICY", *columns], rows)


def _print_widths(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """Mean and longest wait by the part of the machine that a job asks for."""
    print("\nMean and longest wait by width, a part of the machine's processors:")
    widths = next(iter(policies.values()))
    header = [f"{width} ({found['jobs']})" for width, found in widths.items()]
    rows = [
        [name, *(f"{_wait(w['mean_wait'])}, {_wait(w['longest_wait'])}" for w in found.values())]
        for name, found in policies.items()
    ]
    print_table(["POLICY", *header], rows)


def _wait(seconds: float) -> str:
    """A wait in units that are easily read, whole seconds below hours."""
    shown = waiting_time(seconds)
    return shown if isinstance(shown, str) else f"{shown:.0f} s"


def verdict_sentence(prediction: Mapping[str, Any]) -> str:
    """`After N jobs: ...`: each goal, and how many jobs would tell where it is not known."""
    parts = []
    for name in prediction["goals"]:
        each = prediction["figures"][name]
        part = f"{figure_name(name)} {each['verdict']}"
        if each["ci95"] is not None and each["verdict"] in ("better", "worse"):
            part += f" by {abs(each['difference']):.3g}"
        if each["jobs_needed"]:
            part += f" - about {_rounded(each['jobs_needed']):,} jobs needed"
            if each["jobs_needed"] > _NEXT_TO_NONE * each["jobs"]:
                part += ", so next to no difference"
        parts.append(part)
    return f"After {prediction['counted_jobs']:,} jobs: {'; '.join(parts)}."


def figure_name(key: str) -> str:
    """`interactive: mean wait (s)` of `interactive_mean_wait`."""
    for job_class in ("interactive", "batch"):
        if key.startswith(f"{job_class}_"):
            return f"{job_class}: {NAMES[key.removeprefix(f'{job_class}_')]}"
    return NAMES[key]


def _shown(key: str, value: float) -> float | str | None:
    """A figure for a table; waits in units that are easily read."""
    return waiting_time(value) if key.endswith("_wait") else value


def _interval(key: str, ci95: tuple[float, float] | None) -> str | None:
    if ci95 is None:
        return None
    bounds = [_shown(key, each) for each in ci95]
    return " to ".join(each if isinstance(each, str) else f"{each:.4g}" for each in bounds)


def _rounded(jobs: int) -> int:
    """Two digits are all that an estimate of this kind has."""
    unit = int(10.0 ** max(len(str(jobs)) - 2, 0))
    return -(-jobs // unit) * unit
