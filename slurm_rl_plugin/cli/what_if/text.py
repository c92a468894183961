"""`what-if` as people read it: what is known of the cluster, and what each change does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_rl_plugin.cli.evaluate.study.text import ACCOUNTS, shown_groups
from slurm_rl_plugin.cli.tables import print_table, printable, span_text
from slurm_rl_plugin.simulator.workloads.log_shares import SHARES_WORDS

_NAMES = {
    "mean_wait": "mean wait",
    "median_wait": "median wait",
    "p90_wait": "90 % wait at most",
    "p99_wait": "99 % wait at most",
    "longest_wait": "longest wait",
    "within_120s": "wait 120 s at most (%)",
    "bounded_slowdown": "bounded slowdown",
    "misdelivered": "misdelivered service (%)",
}


def print_what_if(document: Mapping[str, Any]) -> None:
    """The cluster, whether it is known, and a table for each variant.

    Args:
        document: as JSON has it.
    """
    log, cluster = document["log"], document["cluster"]
    print(
        f"{log['jobs']} jobs of {log['name']} on {cluster['nodes']} nodes, as slurmctld looks at "
        f"its queue; {log['counted_jobs']} counted, without those at both ends."
    )
    for reason, count in log["dropped"].items():
        print(printable(f"Left out: {count} {reason}"))
    print(SHARES_WORDS[log["shares_from"]])
    for sentence in document["notes"]:
        print(sentence)
    _print_known(document["known"])
    for sentence in cluster["not_simulated"]:
        print(printable(f"Not simulated: {sentence}"))
    print(f"Nobody knows: {'; '.join(document['not_known'])}.")
    print(intervals_words(document["intervals"]))
    for name, variant in document["variants"].items():
        _print_variant(name, variant)


def intervals_words(drawn: Mapping[str, Any]) -> str:
    """Over what intervals are, or that there are none; a sentence."""
    unit = drawn["unit"] if drawn["stretches"] > 1 else drawn["unit"].removesuffix("s")
    over = f"{drawn['stretches']} {unit}"
    if drawn["draws"]:
        return f"Intervals (95 %): over {over}, drawn again."
    return f"Only {over}: too few for intervals, so verdicts are inconclusive."


def _print_known(known: Mapping[str, Any]) -> None:
    print(f"\n{known['sentence']}")
    if not known["cells"]:
        return
    rows = [
        [
            f"{cell['by']}: {cell['group']}",
            cell["jobs"],
            span_text(cell["recorded"]),
            span_text(cell["simulated"]),
            "" if cell["is_close"] else "off",
        ]
        for cell in known["cells"]
    ]
    print_table(["MEAN WAIT OF", "JOBS", "RECORDED", "SIMULATED", ""], rows)
    print()


def _print_variant(name: str, variant: Mapping[str, Any]) -> None:
    print()
    print(printable(f"=== {name}"))
    for sentence in variant["sentences"]:
        print(printable(sentence))
    rows = [_row(_NAMES[key], key, each) for key, each in variant["figures"].items()]
    print_table(["ALL JOBS", "NOW", "THEN", "DIFFERENCE", "(95 %)", "VERDICT"], rows)
    for resource, each in variant["resources"].items():
        parts = ["-" if part is None else f"{100 * part:.1f} %" for part in each["utilization"]]
        print(f"{resource} in use: {parts[0]} now, {parts[1]} then.")
    accounts = variant["service"]["accounts"]
    shown = sorted(accounts, key=lambda name: -accounts[name]["share"])[:ACCOUNTS]
    rows = [[name, accounts[name]["share"], *accounts[name]["ratio"]] for name in shown]
    print_table(["SERVICE OVER ENTITLEMENT", "SHARE", "NOW", "THEN"], rows)
    rows = []
    for by, groups in variant["groups"].items():
        for group in shown_groups(by, groups):
            figures = groups[group]["figures"]
            row = _row(f"{by}: {group}", "mean_wait", figures["mean_wait"])
            rows.append([row[0], groups[group]["jobs"], *row[1:]])
    header = ["MEAN WAIT BY", "JOBS", "NOW", "THEN", "DIFFERENCE", "(95 %)", "VERDICT"]
    print_table(header, rows)
    if variant["inconclusive"]:
        print(f"Inconclusive: {variant['inconclusive']}.")


def _row(title: str, key: str, effect: Mapping[str, Any]) -> list[Any]:
    values = [_shown(key, effect[name]) for name in ("before", "after", "difference")]
    return [title, *values, _interval(key, effect["ci95"]), effect["verdict"]]


def _shown(key: str, value: float) -> str | float:
    if key.endswith("_wait"):
        return span_text(value)
    return 100.0 * value if key in ("within_120s", "misdelivered") else value


def _interval(key: str, ci95: Sequence[float] | None) -> str | None:
    if ci95 is None:
        return None
    shown = [_shown(key, each) for each in ci95]
    return " to ".join(each if isinstance(each, str) else f"{each:.3g}" for each in shown)
