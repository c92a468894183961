"""A study as people read it: policies side by side, waits of groups, who loses, what it means.

`shadow-report` tells its first part where no simulator is installed, so nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_rl_plugin.cli.evaluate.study.nodes_text import print_on_nodes
from slurm_rl_plugin.cli.evaluate.study.verdict import print_verdict
from slurm_rl_plugin.cli.logs.log_options import PEAK
from slurm_rl_plugin.cli.tables import print_table, printable, span_text
from slurm_rl_plugin.simulator.workloads.log_shares import SHARES_WORDS

#: Accounts shown, those with most jobs; --json has them all.
ACCOUNTS = 8
#: Groups shown whose mean wait grows most, and as many whose longest wait does; as many accounts.
LOSERS = 4
#: Accounts of fewer jobs are counted only: their waits are those of a day or two.
FEWEST_JOBS = 10
_OVER = ("fifo", "multifactor")
_RATIOS = {
    "mean_wait": "WAIT",
    "longest_wait": "LONGEST",
    "p999_wait": "99.9 %",
    "wide_wait": "WIDE",
}
_BACKFILLING = {
    "easy": "with EASY backfilling",
    "none": "without backfilling",
    "slurm": "as slurmctld looks at its queue",
}
_LEGEND = (
    "BSLD: mean bounded slowdown, (wait + run time) over the run time (10 s at least); 1 is best.",
    "WAIT, LONGEST: mean and longest wait. 99.9 %: the wait that one job in a thousand exceeds. "
    "WIDE: mean wait of the widest tenth.",
    "/FIFO, /MULTI: over that of first come, first served and of multifactor, both with the same "
    "backfilling and nothing of ours; below 1 is better.",
    "SHORT<=120S%: of the jobs that ran less than 900 s, those that started within 120 s. "
    "F: fairness, from 0 to 1. MISDELIVERED: part of a fortnight's service that went to the wrong "
    "account.",
)
_OF_A_REPLAY = (
    "native: as recorded. native order: the recorded order on the simulated machine, which the "
    "others are to be compared with."
)


def print_site_study(prediction: Mapping[str, Any], study: Mapping[str, Any]) -> None:
    """What a configuration would do to a site's users; a sentence where there is no replay."""
    print()
    if "unavailable" in prediction:
        print(printable(f"No replay: {prediction['unavailable']}"))
        return
    print(
        f"Replay of {prediction['jobs']} jobs on {prediction['processors']} processors "
        f"{_system(study)}; {prediction['counted_jobs']} counted, without those at both ends."
    )
    if prediction["log"].get("processors_from") == PEAK:
        print(guessed_size(prediction["processors"]))
    print(f"In force for {study['model']}: {'; '.join(_in_force(study['settings']))}.")
    rules = study["class_rule"] if study["own_class_rules"] else "by the default [job_class] rules"
    print(f"Classes: {rules}.")
    if dropped := prediction["dropped"]:
        parts = ", ".join(f"{count} {name}" for name, count in dropped.items())
        print(f"Jobs that are left out: {parts}.")
    print(SHARES_WORDS[prediction["shares_from"]])
    print(f"{_OF_A_REPLAY}\n")
    print_figures(study)
    if "on_nodes" in study:
        print_on_nodes(study["on_nodes"]["machine"], study["on_nodes"]["policies"])
    print_groups(study)
    print_losers(study)
    print_verdict(prediction)
    for sentence in (*study["notices"], prediction.get("warning")):
        if sentence:
            print(printable(sentence))
    print(f"The replay does not know: {'; '.join(prediction['not_known'])}.")


def guessed_size(processors: int) -> str:
    """What to say of a machine whose size nobody told."""
    return (
        f"The log does not say how large the machine is: {processors} processors, the most that "
        "was in use at once; --processors gives others."
    )


def _system(study: Mapping[str, Any]) -> str:
    backfilling = _BACKFILLING[study["settings"]["backfilling"]]
    nodes = study.get("on_nodes")
    return backfilling if nodes is None else f"of {nodes['machine']['nodes']} nodes {backfilling}"


def _in_force(settings: Mapping[str, Any]) -> Iterator[str]:
    hours, starved = settings["influence_hours"], settings["starvation_hours"]
    yield "our order wins" if hours is None else f"influence of {hours:g} h of age"
    yield f"scores up to {settings['refresh_seconds']:g} s old"
    yield "no starvation bound" if starved is None else f"starvation bound {starved:g} h"
    most = settings["reserve_most"]
    yield "no reserve" if most is None else f"a reserve of {most:g} processors at most"


def print_figures(study: Mapping[str, Any]) -> None:
    """One row a policy: its figures, each wait over that of first come, first served; a legend.

    Args:
        study: `policies`, `ratio_to_fifo` and `ratio_to_multifactor` as JSON has them; either of
            the ratios may be missing, and may have intervals (`ci95`).
    """
    over = {name: study[f"ratio_to_{name}"] for name in _OVER if f"ratio_to_{name}" in study}
    fifo, multifactor = (over.get(name) for name in _OVER)
    intervals = fifo is not None and any("ci95" in each for each in fifo.values())
    rows = []
    for name, figures in study["policies"].items():
        row = [name, figures["bounded_slowdown"]]
        row += [fifo[name]["bounded_slowdown"]] if fifo else []
        row += [_interval(fifo[name]["ci95"])] if fifo and intervals else []
        row += [multifactor[name]["bounded_slowdown"]] if multifactor else []
        for key in _RATIOS:
            row += [span_text(figures[key]), *([fifo[name][key]] if fifo else [])]
        shares = [figures["fairness"], figures["misdelivered"]]
        rows.append([*row, 100.0 * figures["short_within_120s"], *shares])
    header = ["POLICY", "BSLD", *(["/FIFO"] if fifo else []), *(["(95 %)"] if intervals else [])]
    header += ["/MULTI"] if multifactor else []
    for column in _RATIOS.values():
        header += [column, *(["/FIFO"] if fifo else [])]
    print_table([*header, "SHORT<=120S%", "F", "MISDELIVERED"], rows)
    for line in _LEGEND:
        print(line)


def _interval(ci95: Sequence[float] | None) -> str | None:
    return None if ci95 is None else "{:.3f}-{:.3f}".format(*ci95)


def print_groups(study: Mapping[str, Any]) -> None:
    """Mean and longest wait of every group under every policy."""
    print("\nMean wait, longest wait; widths are parts of the machine, limits what jobs ask for:")
    rows = []
    for by, groups in study["groups"].items():
        for group in shown_groups(by, groups):
            waits = groups[group]["waits"].values()
            cells = [_pair(each["mean_wait"], each["longest_wait"]) for each in waits]
            rows.append([f"{by}: {group}", groups[group]["jobs"], *cells])
    print_table(["JOBS BY", "JOBS", *study["policies"]], rows)
    if (hidden := len(study["groups"]["account"]) - ACCOUNTS) > 0:
        print(f"{hidden} smaller accounts: see --json.")


def shown_groups(by: str, groups: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All groups, but of the accounts those with most jobs."""
    if by != "account":
        return list(groups)
    return sorted(groups, key=lambda name: (-groups[name]["jobs"], name))[:ACCOUNTS]


def print_losers(study: Mapping[str, Any]) -> None:
    """Whose mean or longest wait grows most under each policy that is judged, or that nobody's."""
    base = study["compared_with"]
    for name, losers in study["losers"].items():
        if not losers:
            print(
                f"\nWho loses under {name} beside {base}: nobody; no group's mean or longest wait "
                "grows by a minute."
            )
            continue
        print(f"\nWho loses under {name} beside {base}, by how their waits grow:")
        rows = [
            [
                f"{each['by']}: {each['group']}",
                each["jobs"],
                *_grown(each["mean_wait"]),
                *_grown(each["longest_wait"]),
            ]
            for each in (*_worst(losers, accounts=False), *_worst(losers, accounts=True))
        ]
        print_table(["JOBS BY", "JOBS", "WAIT", "GROWS BY", "LONGEST", "GROWS BY"], rows)
        if (hidden := len(losers) - len(rows)) > 0:
            print(f"{hidden} more wait longer, in the mean or at the longest: see --json.")


def _worst(losers: Sequence[Mapping[str, Any]], *, accounts: bool) -> list[Mapping[str, Any]]:
    """Those whose mean wait grows most and those whose longest does, in the order of the former."""
    losers = [
        each
        for each in losers
        if (each["by"] == "account") == accounts and (each["jobs"] >= FEWEST_JOBS or not accounts)
    ]
    by_longest = sorted(losers, key=lambda each: -_growth(each["longest_wait"]))[:LOSERS]
    chosen = [*losers[:LOSERS], *by_longest]
    return [each for each in losers if each in chosen]


def _growth(waits: Sequence[float]) -> float:
    return waits[1] - waits[0]


def _grown(waits: Sequence[float]) -> tuple[str, str]:
    """`1.2 h to 3.4 h`, and what lies between."""
    return f"{span_text(waits[0])} to {span_text(waits[1])}", span_text(_growth(waits))


def _pair(mean: float, longest: float) -> str:
    return f"{span_text(mean)}, {span_text(longest)}"
