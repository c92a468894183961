"""`slurm-rl limits`: compare time limits with run times, and advise new limits."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.argument_types import positive_number
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.cli.tables import answer, print_table, slurm_duration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.forecasts.limits import limits_report

#: Maximum accounts and templates printed.
_SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the reported days, and the user."""
    parser.add_argument("log", nargs="?", metavar="LOG", help="an accounting log")
    parser.add_argument(
        "--days",
        type=positive_number,
        default=7.0,
        metavar="DAYS",
        help="report the last DAYS of the log (default: 7)",
    )
    parser.add_argument("-u", "--user", metavar="USER", help="advise only this user")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_log_options(parser)


def main(options: argparse.Namespace) -> int:
    """Read the log, and print the report."""
    if (options.log is None) == (options.source is None):
        raise ConfigurationError("give either a LOG or --from slurm --since TIME.")
    given = [] if options.log is None else [options.log]
    (named,) = read_named_logs(given, LogOptions.of(options))
    log = named.prepared.log
    # a report on a user without jobs would say that nothing can be saved
    if options.user not in {None, *(log.users[each] for each in np.unique(log.user) if each >= 0)}:
        raise ConfigurationError(
            f"-u {options.user}: {named.name} has no job of this user: give another."
        )
    document = {"log": named.name, **limits_report(log, options.days)}
    if options.user is not None:
        mine = [each for each in document["templates"] if each["user"] == options.user]
        document["templates"] = mine
    return answer(options, document, lambda: _print(document))


def _print(document: dict[str, Any]) -> None:
    print(f"{document['jobs']} jobs of the last {document['days']:g} days of {document['log']}\n")
    limited = sum(each["jobs"] for each in document["accounts"])
    if 0 < limited < document["jobs"]:
        print(f"{document['jobs'] - limited} of them have no time limit and are left out below.\n")
    if not document["accounts"]:
        print("These jobs have no time limit, so there is nothing to compare.")
    else:
        _print_accounts(document)
    if document["accounts"] or document["rule"]:
        _print_advice(document)


def _print_accounts(document: dict[str, Any]) -> None:
    rows = [
        [
            each["account"],
            each["jobs"],
            f"{each['limit_over_run_time']:.1f}",
            f"{each['asked_hours']:.0f}",
            f"{each['used_hours'] / max(each['asked_hours'], 1e-9):.0%}",
            f"{each['close_to_limit']:.1%}",
            f"{each['at_limit']:.1%}",
        ]
        for each in document["accounts"][:_SHOWN]
    ]
    header = ["ACCOUNT", "JOBS", "LIMIT/RUN", "HOURS ASKED", "USED", "ABOVE 90 %", "AT LIMIT"]
    print_table(header, rows)
    _print_left_out(len(document["accounts"]) - _SHOWN, "accounts")
    print("LIMIT/RUN: median of limit over run time. Hours are processor hours.\n")


def _print_advice(document: dict[str, Any]) -> None:
    rule, held_out = document["rule"], document["held_out"]
    if rule is None:
        print(
            "No limit is advised: on the first 60 % of this log, no rule would certainly kill at "
            "most 1 % of its jobs."
        )
        return
    judged = f"of {held_out['jobs']} later jobs, {held_out['advised']} would have got advice"
    if held_out["advised"]:
        judged += (
            f"; {held_out['killed']:.2%} of these would have been killed. The advised limits are "
            f"{held_out['over_run_time']:.1f} times the run time (requested now: "
            f"{held_out['asked_over_run_time']:.1f}; medians)"
        )
    margin, fewest, most = rule["margin"], rule["fewest"], rule["alike"]
    print(
        f"Advice: {margin:g} times the longest of at least {fewest} similar runs, "
        f"if no run took {most:g} times their median. The rule was chosen on the first "
        f"60 % of the log; {judged}.\n"
    )
    rows = [
        [
            each["user"] or "-",
            each["processors"],
            slurm_duration(each["limit"]),
            each["runs"],
            slurm_duration(each["longest"]),
            slurm_duration(each["advised"]),
            f"{each['freed_hours']:.0f}",
        ]
        for each in document["templates"][:_SHOWN]
    ]
    if rows:
        header = ["USER", "PROCESSORS", "LIMIT", "RUNS", "LONGEST", "ADVISED", "HOURS FREED"]
        print_table(header, rows)
        _print_left_out(len(document["templates"]) - _SHOWN, "requests")


def _print_left_out(more: int, what: str) -> None:
    if more > 0:
        print(f"{more} more {what}: see --json.")
