"""The verdict of a replay: each figure of the model beside the site's, and what that means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, span_text

#: What figures are called.
NAMES = {
    "mean_wait": "mean wait",
    "median_wait": "median wait",
    "p95_wait": "95 % wait at most",
    "within_120s": "waited 120 s at most",
    "mean_bounded_slowdown": "mean bounded slowdown",
    "fairness": "fairness",
}


def print_verdict(prediction: Mapping[str, Any]) -> None:
    """Every figure with its interval, and the verdict in one sentence."""
    print(f"\n{prediction['model']} beside the {prediction['compared_with']}:")
    rows = []
    for name, each in prediction["figures"].items():
        values = [_shown(name, each[key]) for key in ("model", "site", "difference")]
        interval = _interval(name, each["ci95"])
        rows.append([figure_name(name), each["jobs"], *values, interval, each["verdict"]])
    header = ["FIGURE", "JOBS", "MODEL", "SITE", "DIFFERENCE", "(95 %)", "VERDICT"]
    print_table(header, rows)
    if price := prediction["reserve_price"]:
        parts = [f"{figure_name(name)} times {ratio:.3f}" for name, ratio in price.items()]
        print(f"Price of the reserve, beside the same order without: {', '.join(parts)}.")
    print(f"\n{verdict_sentence(prediction)}")


def verdict_sentence(prediction: Mapping[str, Any]) -> str:
    """`After N jobs: ...`: each goal, and how many jobs would tell where it is not known."""
    parts = []
    for name in prediction["goals"]:
        each = prediction["figures"][name]
        part = f"{figure_name(name)} {each['verdict']}"
        if each["verdict"] in ("better", "worse"):
            part += _size(each)
        if each["jobs_needed"]:
            part += f" - about {_rounded(each['jobs_needed']):,} jobs needed"
        parts.append(part)
    return f"After {prediction['counted_jobs']:,} jobs: {'; '.join(parts)}."


def _size(figure: Mapping[str, Any]) -> str:
    """How much a difference is, also as a part of the site's figure."""
    difference, site = abs(figure["difference"]), abs(figure["site"])
    size = f" by {difference:.3g}"
    if not site:
        return size
    return f"{size} ({100.0 * difference / site:.2g} %)"


def figure_name(key: str) -> str:
    """`interactive: mean wait (s)` of `interactive_mean_wait`."""
    for job_class in ("interactive", "batch"):
        if key.startswith(f"{job_class}_"):
            return f"{job_class}: {NAMES[key.removeprefix(f'{job_class}_')]}"
    return NAMES[key]


def _shown(key: str, value: float) -> float | str | None:
    """A figure for a table; waits in units that are easily read, None without any job."""
    if key.endswith("_wait"):
        return span_text(value)
    return value if math.isfinite(value) else None


def _interval(key: str, ci95: tuple[float, float] | None) -> str | None:
    if ci95 is None:
        return None
    bounds = [_shown(key, each) for each in ci95]
    return " to ".join(each if isinstance(each, str) else f"{each:.3g}" for each in bounds)


def _rounded(jobs: int) -> int:
    """Two digits are all that an estimate of this kind has."""
    unit = int(10.0 ** max(len(str(jobs)) - 2, 0))
    return -(-jobs // unit) * unit
