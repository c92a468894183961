"""Prints studies: policies side by side, waits of groups, who loses, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slurm_rl_plugin.cli.tables import WAIT_UNITS, print_table, waiting_time
from slurm_rl_plugin.cli.this_cluster import PEAK
from slurm_rl_plugin.evaluation.protocols import ContinuousStudy, HeldoutStudy
from slurm_rl_plugin.evaluation.site_replay import Prediction, figure_name
from slurm_rl_plugin.evaluation.study import ACCOUNTS, InForce, Study, shown_groups
from slurm_rl_plugin.learning.evaluation.group_waits import Loser
from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS
from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.simulator.workloads.log_workload import SHARES_WORDS
from slurm_rl_plugin.units import HOUR

#: Maximum groups shown by growth of the mean wait, and of the longest wait; also accounts.
LOSERS = 4
#: Accounts with fewer jobs are only counted: their waits are those of a day or two.
FEWEST_JOBS = 10
#: Part of the machine that rounding may add.
_ROUNDING = 1e-6
_RATIOS = {
    "mean_wait": "WAIT",
    "longest_wait": "LONGEST",
    "p999_wait": "99.9 %",
    "wide_wait": "WIDE",
}
_BACKFILLING = {
    "easy": "with EASY backfilling",
    "none": "without backfilling",
    "slurm": "as slurmctld schedules",
}
#: Figures that only some policies have -> their columns.
_FURTHER = {"mean_wait_since_submit": "SINCE-SUBMIT", "jobs_per_second": "JOBS/S"}
_POLICIES_LEGEND = f"""\
WAIT, MAXWAIT: mean and longest wait, {WAIT_UNITS}. I-, B-: interactive and batch jobs.
I<=120S: fraction of the interactive jobs that started within 120 s. BSLD: mean bounded \
slowdown, (wait + run time) over the run time (10 s at least); 1 is best.
R, U, F: responsiveness, time utility and fairness to the accounts' shares, from 0 to 1; more \
is better."""
_ACCOUNTS_LEGEND = """\
MISDELIVERED: mean part of the service of a fortnight that went to the wrong account. \
KEPT95: part of the fortnights in which an account received at least 95 % of its entitlement.
The other columns are delivered over entitled service of each account. The entitlement is the \
delivered service, divided by the shares, at most what the account's jobs could use."""
_STUDY_LEGEND = """\
BSLD: mean bounded slowdown, (wait + run time) over the run time (10 s at least); 1 is best.
WAIT, LONGEST: mean and longest wait. 99.9 %: the wait that one job in a thousand exceeds. \
WIDE: mean wait of the widest tenth.
/FIFO, /MULTI: the ratio to first come, first served and to multifactor, both with the same \
backfilling and without our plugin; below 1 is better.
SHORT<=120S%: percentage of the jobs below 900 s that started within 120 s. \
F: fairness, from 0 to 1. MISDELIVERED: part of a fortnight's service that went to the wrong \
account."""


def print_evaluation(
    log: Mapping[str, Any], policies: Mapping[str, Mapping[str, Any]], study: Study
) -> None:
    """Policies side by side on one log."""
    print_policies(policies)
    print(_POLICIES_LEGEND)
    _print_accounts(policies)
    print(SHARES_WORDS[log["shares_from"]])
    if log["dropped"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(log["dropped"].items()))
        print(f"Jobs of the log that were left out: {reasons}.")
    _print_size(log, log["processors"])
    for name, entry in policies.items():
        if entry["utilization"] > 1.0 + _ROUNDING:
            print(
                f"{name} used {entry['utilization']:.1f} times the {log['processors']} processors "
                "of this machine on average: the real machine was larger (--processors), so this "
                "policy cannot be compared."
            )
    if "machine" in log:
        print_on_nodes(log["machine"], policies)
    print_groups(study)
    print_losers(study)
    print_users(policies)


def print_policies(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """One row a policy."""
    header = ["POLICY", "WAIT", "MAXWAIT", "I-WAIT", "I<=120S", "B-WAIT", "BSLD", "R", "U", "F"]
    further = [key for key in _FURTHER if any(key in entry for entry in policies.values())]
    rows = []
    for name, entry in policies.items():
        interactive, batch = entry["classes"]["interactive"], entry["classes"]["batch"]
        row = [name, waiting_time(entry["mean_wait"]), waiting_time(entry["max_wait"])]
        row += [waiting_time(interactive["mean_wait"]), interactive["within_120s"]]
        row += [waiting_time(batch["mean_wait"]), entry["mean_bounded_slowdown"]]
        row += [entry[key] for key in ("responsiveness", "time_utility", "fairness")]
        for key in further:
            row.append(waiting_time(entry[key]) if "wait" in key else entry[key])
        rows.append(row)
    print_table([*header, *(_FURTHER[key] for key in further)], rows)


def _print_accounts(policies: Mapping[str, Mapping[str, Any]]) -> None:
    entries = {name: each for name, each in policies.items() if "misdelivered" in each}
    if not entries:
        return
    accounts = next(iter(entries.values()))["accounts"]
    shown = sorted(accounts, key=lambda name: -accounts[name]["share"])[:ACCOUNTS]
    header = [printable(f"{name} ({accounts[name]['share']:.2g})") for name in shown]
    rows = [
        [
            name,
            each["misdelivered"]["fortnight"],
            each["misdelivered"]["kept95"],
            *(each["accounts"][account]["ratio"] for account in shown),
        ]
        for name, each in entries.items()
    ]
    print_table(["POLICY", "MISDELIVERED", "KEPT95", *header], rows)
    print(_ACCOUNTS_LEGEND)
    if len(shown) < len(accounts):
        print(f"The {len(shown)} largest of {len(accounts)} shares are shown; --json has all.")


def print_users(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """One row a user and policy, users with most jobs first; nothing without such a summary."""
    rows = [
        [user, policy, each["jobs"], waiting_time(each["mean_wait"]), each["mean_bounded_slowdown"]]
        for policy, entry in policies.items()
        for user, each in entry.get("users", {}).items()
    ]
    if rows:
        rows.sort(key=lambda row: (-row[2], row[0]))
        print()
        print_table(["USER", "POLICY", "JOBS", "WAIT", "BSLD"], rows)


def print_utility_classes(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """Time utility of each class that the site configures, one row a policy."""
    names = list(next(iter(policies.values())).get("utility_classes", ()))
    if not names:
        return
    rows = [
        [policy, *(entry["utility_classes"][name]["time_utility"] for name in names)]
        for policy, entry in policies.items()
    ]
    print_table(["POLICY", *(printable(f"U({name})") for name in names)], rows)
    print("U(NAME): mean time utility of the jobs of [utility.NAME], from 0 to 1.")


def print_site_study(prediction: Prediction, study: Study, warning: str | None = None) -> None:
    """The effect of a configuration on a site's users."""
    assert study.settings is not None  # every study of a site has them
    backfilling = _BACKFILLING[study.settings.backfilling]
    if study.on_nodes is not None:
        backfilling = f"of {study.on_nodes.machine['nodes']} nodes {backfilling}"
    print(
        f"\nReplay of {prediction.jobs} jobs on {prediction.processors} processors {backfilling}; "
        f"{prediction.counted_jobs} counted, without both ends."
    )
    _print_size(prediction.log, prediction.processors)
    print(f"In force for {study.model}: {'; '.join(_in_force(study.settings))}.")
    rules = study.class_rule if study.own_class_rules else "by the default [job_class] rules"
    print(f"Classes: {rules}.")
    if prediction.dropped:
        parts = ", ".join(f"{count} {name}" for name, count in prediction.dropped.items())
        print(f"Jobs that were left out: {parts}.")
    print(SHARES_WORDS[prediction.shares_from])
    print(
        "native: as recorded. native order: the recorded order on the simulated machine; compare "
        "the others with it.\n"
    )
    policies = {name: asdict(each) for name, each in study.policies.items()}
    _print_figures(policies, study.ratio_to_fifo, study.ratio_to_multifactor)
    if study.on_nodes is not None:
        print_on_nodes(study.on_nodes.machine, study.on_nodes.policies)
    print_groups(study)
    print_losers(study)
    _print_verdict(prediction)
    for sentence in (*(study.notices or ()), warning):
        if sentence:
            print(printable(sentence))
    print(f"The replay does not know: {'; '.join(prediction.not_known)}.")


def _print_size(log: Mapping[str, Any], processors: int) -> None:
    if log.get("processors_from") == PEAK:
        print(
            f"The log does not give the size of the machine: {processors} processors, the most in "
            "use at once; --processors changes it."
        )


def _in_force(settings: InForce) -> Iterator[str]:
    hours, starved = settings.influence_hours, settings.starvation_hours
    yield "our order wins" if hours is None else f"influence of {hours:g} h of age"
    yield f"scores up to {settings.refresh_seconds:g} s old"
    yield "no starvation bound" if starved is None else f"starvation bound {starved:g} h"
    most = settings.reserve_most
    yield "no reserve" if most is None else f"a reserve of at most {most:g} processors"


def _print_figures(
    policies: Mapping[str, Mapping[str, float]],
    fifo: Mapping[str, Mapping[str, Any]] | None,
    multifactor: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    intervals = fifo is not None and any("ci95" in each for each in fifo.values())
    over = ["/FIFO"] if fifo else []
    header = ["POLICY", "BSLD", *over, *(["(95 %)"] if intervals else [])]
    header += ["/MULTI"] if multifactor else []
    header += [each for column in _RATIOS.values() for each in (column, *over)]
    rows = []
    for name, figures in policies.items():
        row: list[Any] = [name, figures["bounded_slowdown"]]
        row += [fifo[name]["bounded_slowdown"]] if fifo else []
        row += [_between(fifo[name]["ci95"])] if fifo and intervals else []
        row += [multifactor[name]["bounded_slowdown"]] if multifactor else []
        for key in _RATIOS:
            row += [span_text(figures[key]), *([fifo[name][key]] if fifo else [])]
        row += [100.0 * figures["short_within_120s"], figures["fairness"], figures["misdelivered"]]
        rows.append(row)
    print_table([*header, "SHORT<=120S%", "F", "MISDELIVERED"], rows)
    print(_STUDY_LEGEND)


def print_on_nodes(machine: Mapping[str, Any], policies: Mapping[str, Mapping[str, Any]]) -> None:
    """The machine's resources and partitions under each policy, and what is not simulated."""
    some = next(iter(policies.values()))
    print(f"\nOn {machine['nodes']} nodes; part of each resource in use, and requests:")
    rows = [
        [
            name,
            each["capacity"],
            each["load"],
            *(of["resources"][name]["utilization"] for of in policies.values()),
        ]
        for name, each in some["resources"].items()
    ]
    print_table(["RESOURCE", "CAPACITY", "REQUESTED", *policies], rows)
    print("Mean and longest wait by partition:")
    waits = []
    for name, each in some["partitions"].items():
        under = (of["partitions"][name] for of in policies.values())
        waits.append(
            [name, each["jobs"], *(_pair(of["mean_wait"], of["max_wait"]) for of in under)]
        )
    print_table(["PARTITION", "JOBS", *policies], waits)
    for sentence in machine["not_simulated"]:
        print(printable(f"Not simulated: {sentence}"))


def print_groups(study: Study) -> None:
    """Mean and longest wait of every group under every policy."""
    print("\nMean and longest wait by width (part of the machine), time limit and account:")
    rows = [
        [
            f"{by}: {name}",
            groups[name].jobs,
            *(_pair(each.mean_wait, each.longest_wait) for each in groups[name].waits.values()),
        ]
        for by, groups in study.groups.items()
        for name in shown_groups(by, groups)
    ]
    print_table(["JOBS BY", "JOBS", *study.policies], rows)
    if (hidden := len(study.groups["account"]) - ACCOUNTS) > 0:
        print(f"{hidden} smaller accounts: see --json.")


def print_losers(study: Study) -> None:
    """The groups whose mean or longest wait grows most under each judged policy."""
    for name, losers in study.losers.items():
        title = f"\nWho loses under {name}, compared with {study.compared_with}:"
        if not losers:
            print(f"{title} no group; no mean or longest wait grows by a minute.")
            continue
        print(title)
        rows = [
            [
                f"{each.by}: {each.group}",
                each.jobs,
                *(_change(each.mean_wait), span_text(each.mean_growth)),
                *(_change(each.longest_wait), span_text(each.longest_growth)),
            ]
            for each in (*_worst(losers, accounts=False), *_worst(losers, accounts=True))
        ]
        print_table(["JOBS BY", "JOBS", "WAIT", "GROWS BY", "LONGEST", "GROWS BY"], rows)
        if (hidden := len(losers) - len(rows)) > 0:
            print(f"{hidden} more groups wait longer on average or at most: see --json.")


def _worst(losers: Sequence[Loser], *, accounts: bool) -> list[Loser]:
    judged = [
        each
        for each in losers
        if (each.by == "account") == accounts and (each.jobs >= FEWEST_JOBS or not accounts)
    ]
    by_longest = sorted(judged, key=lambda each: -each.longest_growth)[:LOSERS]
    chosen = [*judged[:LOSERS], *by_longest]
    return [each for each in judged if each in chosen]


def _change(waits: tuple[float, float]) -> str:
    return " to ".join(map(span_text, waits))


def _pair(mean: float, longest: float) -> str:
    return f"{span_text(mean)}, {span_text(longest)}"


def _between(ci95: Any) -> str | None:
    return None if ci95 is None else "{:.3f}-{:.3f}".format(*ci95)


def _print_verdict(prediction: Prediction) -> None:
    print(f"\n{prediction.model} compared with the {prediction.compared_with}:")
    rows = []
    for name, each in prediction.figures.items():
        values = [_shown(name, value) for value in (each.model, each.site, each.difference)]
        bounds = [_shown(name, end) for end in each.ci95 or ()]
        shown = [end if isinstance(end, str) else f"{end:.3g}" for end in bounds]
        rows.append(
            [figure_name(name), each.jobs, *values, " to ".join(shown) or None, each.verdict]
        )
    header = ["FIGURE", "JOBS", "MODEL", "SITE", "DIFFERENCE", "(95 %)", "VERDICT"]
    print_table(header, rows)
    if price := prediction.reserve_price:
        parts = ", ".join(f"{figure_name(name)} times {ratio:.3f}" for name, ratio in price.items())
        print(f"Price of the reserve, compared with the same order without it: {parts}.")
    print(f"\n{prediction.sentence}")


def _shown(key: str, value: float) -> float | str | None:
    """A figure for a table: waits with units, None without any job."""
    if key.endswith("_wait"):
        return span_text(value)
    return value if math.isfinite(value) else None


def print_heldout(found: HeldoutStudy) -> None:
    """The choice of the rule, then one row a policy."""
    _print_rules(found.training_bounded_slowdown, "geometric mean over windows")
    print(
        f"\nbest heuristic: {found.best_heuristic}; windows of the test part: {found.windows}, "
        f"independent: {found.independent_windows}; GEO: geometric mean of the ratios in the "
        "windows"
    )
    header = ["POLICY", "BSLD", "TO-BEST", "GEO", "(95 %)", "TO-MULTIFACTOR", "GEO", "(95 %)"]
    rows = []
    for name, entry in found.policies.items():
        row: list[Any] = [name, entry["mean_bounded_slowdown"]]
        for ratio in (found.ratio_to_best_heuristic[name], found.ratio_to_multifactor[name]):
            row += [ratio.mean, ratio.geometric_mean, _between(ratio.ci95)]
        share, wait = entry["short_within_120s"], entry["mean_max_wait"]
        row += [None if share is None else 100 * share, None if wait is None else wait / HOUR]
        rows.append([*row, entry["misdelivered"]])
    print_table([*header, "SHORT<=120S%", "MAXWAIT-H", "MISDELIVERED"], rows)
    print("\nrun times as predicted when jobs arrive, on the test part:")
    names = ("log_score", "crps", "log_error", "log_error_requested")
    header = ["LOG-SCORE", "CRPS", "LOG10-ERROR", "OF THE REQUEST"]
    print_table(header, [[found.run_time_scores[name] for name in names]])
    print(f"\nclass that policies know: {found.class_rule}")
    if unknown := found.jobs_without_request:
        print(f"jobs without a requested time, replaced by their run time: {unknown}")


def print_continuous(found: ContinuousStudy) -> None:
    """One row a policy: its figures and their ratios to first come, first served.

    On a machine of nodes, the choice of the rule comes first and the ratios to that rule last.
    """
    best = found.best_heuristic
    if found.training_bounded_slowdown is not None:
        _print_rules(found.training_bounded_slowdown, "over runs")
        print()
    _print_figures(found.policies, found.ratio_to_fifo, found.ratio_to_multifactor)
    if found.ratio_to_best_heuristic is not None:
        ratios = found.ratio_to_best_heuristic.items()
        rows = [
            [name, each["bounded_slowdown"], _between(each["ci95"]), each["longest_wait"]]
            for name, each in ratios
        ]
        about = f"intervals over {found.days} days"
        if any(each["ci95"] is None for _, each in ratios):
            about = f"without intervals, which need two runs and jobs on {FEWEST_BLOCKS} days"
        print(f"\nbest heuristic: {best}; ratios to it, {about}:")
        print_table(["POLICY", "BSLD", "(95 %)", "MAXWAIT"], rows)
    print(
        f"The whole log in one run, {found.backfilling} backfilling; figures of the last "
        f"{found.counted_jobs} jobs, medians of {found.runs} runs, each without 2 % of the jobs."
    )
    print(f"class that policies know: {found.class_rule}")


def _print_rules(slowdowns: Mapping[str, float], how: str) -> None:
    print(f"mean bounded slowdown on the training part ({how}):")
    print_table(["RULE", "BSLD"], sorted(slowdowns.items(), key=lambda each: each[1]))
