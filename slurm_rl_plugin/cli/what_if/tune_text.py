"""`tune` as people read it: what was found, what it gains on the rest, and the lines to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, printable, span_text
from slurm_rl_plugin.cli.what_if.text import intervals_words
from slurm_rl_plugin.simulator.workloads.log_shares import SHARES_WORDS

_FIGURES = ("bounded_slowdown", "mean_wait", "longest_wait", "misdelivered")


def print_tuning(document: Mapping[str, Any]) -> None:
    """The search, each order beside the cluster as it is, and the lines, or that there are none.

    Args:
        document: as JSON has it.
    """
    log, search = document["log"], document["search"]
    print(
        f"{search['tried']} settings tried on the first {100 * search['training_part']:.0f} % of "
        f"the time of {log['name']}; {log['counted_jobs']} jobs of the rest are counted."
    )
    print(SHARES_WORDS[log["shares_from"]])
    print(document["known"]["sentence"])
    for sentence in document["cluster"]["not_simulated"]:
        print(printable(f"Not simulated: {sentence}"))
    for sentence in document["notes"]:
        print(sentence)
    print(intervals_words(document["intervals"]))
    print()
    _print_orders(document)
    for name, words in document["words"].items():
        print(printable(f"{name}: {words}"))
    chosen = document["chosen"]
    over = chosen["learned_order_gain"]
    print(
        printable(
            f"Best on the past: {chosen['name']}; gain of the learned order over it: "
            f"{over['gain']:.3f}{_interval(over)}."
        )
    )
    print()
    if not document["lines"]:
        print("No gain is beyond chance: leave slurm.conf as it is, or tune on a longer log.")
        return
    for line in document["lines"]:
        print(printable(line))
    print(printable(f"Written to {document['written']}, all commented. Nothing was applied."))


def _print_orders(document: Mapping[str, Any]) -> None:
    variants = document["variants"]
    some = next(iter(variants.values()))
    rows = [["as it is", None, None, *_values(some, "before")]]
    for name, variant in variants.items():
        gain = document["gain"][name]
        interval = _interval(gain, "{:.3f} to {:.3f}") or None
        rows.append([name, gain["gain"], interval, *_values(variant, "after")])
    header = [
        "ORDER",
        "GAIN",
        "(95 %)",
        "BSLD",
        "WAIT",
        "LONGEST",
        "MISDELIVERED",
        "INTERACTIVE",
        "<=120S%",
    ]
    print_table(header, rows)


def _interval(gain: Mapping[str, Any], form: str = " [{:.3f}, {:.3f}]") -> str:
    return "" if gain["ci95"] is None else form.format(*gain["ci95"])


def _values(variant: Mapping[str, Any], side: str) -> list[Any]:
    figures = variant["figures"]
    quick = variant["groups"]["class"].get("interactive", {"figures": figures})["figures"]
    values = [figures[name][side] for name in _FIGURES]
    return [
        values[0],
        span_text(values[1]),
        span_text(values[2]),
        values[3],
        span_text(quick["mean_wait"][side]),
        100.0 * quick["within_120s"][side],
    ]
