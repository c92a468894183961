"""What `slurm-rl evaluate` prints for people: policies, groups, who loses, and a legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.evaluate.resampled_logs import print_resampled
from slurm_rl_plugin.cli.evaluate.study.nodes_text import print_on_nodes
from slurm_rl_plugin.cli.evaluate.study.text import guessed_size, print_groups, print_losers
from slurm_rl_plugin.cli.evaluate.user_summary import print_users
from slurm_rl_plugin.cli.logs.log_options import PEAK
from slurm_rl_plugin.cli.tables import WAIT_UNITS, print_table, printable, waiting_time
from slurm_rl_plugin.simulator.workloads.log_shares import SHARES_WORDS

#: Figures that not every policy table has, and their columns.
_FURTHER = {"mean_wait_since_submit": "SINCE-SUBMIT", "jobs_per_second": "JOBS/S"}
#: Accounts that a table has columns for.
_SHOWN_ACCOUNTS = 8
#: Part of the machine by which sums of times may be off.
_ROUNDING = 1e-6
_LEGEND = (
    f"WAIT, MAXWAIT: mean and longest wait, {WAIT_UNITS}. I-, B-: interactive and batch jobs.",
    "I<=120S: fraction of the interactive jobs that started within 120 s. BSLD: mean bounded "
    "slowdown, (wait + run time) over the run time (10 s at least); 1 is best.",
    "R, U, F: responsiveness, time utility and fairness to the accounts' shares, from 0 to 1; more "
    "is better.",
)


_ACCOUNTS_LEGEND = (
    "MISDELIVERED: part of the service of a fortnight that went to the wrong account, on the "
    "average; KEPT95: fortnights in which an account received 95 % or more of its entitlement.\n"
    "Below, of each account: delivered over entitled service. The entitlement is what was "
    "delivered, divided by the shares, at most what the account's jobs could use."
)


def print_document(document: Mapping[str, Any]) -> None:
    """Every table of one evaluation, and a legend below the first."""
    print_policies(document)
    for line in _LEGEND:
        print(line)
    print_accounts(document["policies"])
    print(SHARES_WORDS[document["log"]["shares_from"]])
    if dropped := document["log"]["dropped"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        print(f"Jobs of the log that are left out: {reasons}.")
    for line in _of_the_machine(document):
        print(line)
    if "machine" in document["log"]:
        print_on_nodes(document["log"]["machine"], document["policies"])
    print_groups(document["study"])
    print_losers(document["study"])
    if any("users" in entry for entry in document["policies"].values()):
        print_users(document["policies"])
    if "resampled" in document:
        print_resampled(document["resampled"])


def _of_the_machine(document: Mapping[str, Any]) -> Iterator[str]:
    """Where its size is a guess, or what was recorded had no room on it."""
    log = document["log"]
    size = f"{log['processors']} processors"
    if log.get("processors_from") == PEAK:
        yield guessed_size(log["processors"])
    for name, entry in document["policies"].items():
        if entry["utilization"] > 1.0 + _ROUNDING:
            yield (
                f"{name} had {entry['utilization']:.1f} times the {size} of this machine in use, "
                "on the average: it was larger (--processors), and nothing compares with it."
            )


def print_accounts(policies: Mapping[str, Any]) -> None:
    """Who got what: one row a policy, one column an account."""
    entries = {name: each for name, each in policies.items() if "misdelivered" in each}
    if not entries:
        return
    accounts = next(iter(entries.values()))["accounts"]
    shown = sorted(accounts, key=lambda name: -accounts[name]["share"])[:_SHOWN_ACCOUNTS]
    header = [printable(f"{name} ({accounts[name]['share']:.2g})") for name in shown]
    print_table(
        ["POLICY", "MISDELIVERED", "KEPT95", *header],
        [
            [
                name,
                each["misdelivered"]["fortnight"],
                each["misdelivered"]["kept95"],
                *(each["accounts"][account]["ratio"] for account in shown),
            ]
            for name, each in entries.items()
        ],
    )
    print(_ACCOUNTS_LEGEND)
    if len(shown) < len(accounts):
        print(f"Shown are the {len(shown)} largest of {len(accounts)} shares; --json has all.")


def print_policies(document: Mapping[str, Any]) -> None:
    """One row a policy."""
    header = ["POLICY", "WAIT", "MAXWAIT", "I-WAIT", "I<=120S", "B-WAIT", "BSLD", "R", "U", "F"]
    rows = []
    for name, entry in document["policies"].items():
        interactive, batch = entry["classes"]["interactive"], entry["classes"]["batch"]
        row = [
            name,
            waiting_time(entry["mean_wait"]),
            waiting_time(entry["max_wait"]),
            waiting_time(interactive["mean_wait"]),
            interactive["within_120s"],
            waiting_time(batch["mean_wait"]),
            entry["mean_bounded_slowdown"],
            entry["responsiveness"],
            entry["time_utility"],
            entry["fairness"],
        ]
        rows.append(row + [_further(entry, key) for key in _FURTHER if key in entry])
    entries = document["policies"].values()
    header += [_FURTHER[key] for key in _FURTHER if any(key in entry for entry in entries)]
    print_table(header, rows)


def print_utility_classes(policies: Mapping[str, Any]) -> None:
    """U of each class that the site configures, one row a policy; nothing without any."""
    names = list(next(iter(policies.values())).get("utility_classes", ()))
    if not names:
        return
    rows = [
        [policy, *(entry["utility_classes"][name]["time_utility"] for name in names)]
        for policy, entry in policies.items()
    ]
    print_table(["POLICY", *(printable(f"U({name})") for name in names)], rows)
    print("U(NAME): mean time utility of the jobs of class NAME ([utility.NAME]), from 0 to 1.")


def _further(entry: Mapping[str, Any], key: str) -> Any:
    return waiting_time(entry[key]) if "wait" in key else entry[key]
