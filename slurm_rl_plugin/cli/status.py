"""`slurm-rl status`: whether all is well, as a health check asks it."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.site_options import (
    add_way_out_options,
    become_state_owner,
    quiet_known_configuration,
)
from slurm_rl_plugin.cli.tables import (
    print_json,
    printable,
    slurm_duration,
    slurm_size,
    slurm_time,
)
from slurm_rl_plugin.configuration import Configuration, KnownConfiguration
from slurm_rl_plugin.domain.resource_use import resource_use
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs, lock_path
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.services.configured_site import build_batch_system, daemon_metrics
from slurm_rl_plugin.whole_file import may_exist

#: A running daemon whose last good cycle is so many paces, and so many seconds, old is stuck.
_STALE_CYCLES, _STALE_SECONDS = 10, 300.0
#: What mends the absence of a daemon, or says that it is meant.
_START_IT = (
    "start it with `systemctl enable --now slurm-rl.service` (`slurm-rl run` without systemd), or "
    "say with `slurm-rl disable --reason TEXT` that it is not to run."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which daemon is looked at: by its configuration or by its state file."""
    add_way_out_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Print what is known of the daemon; 1 when something is wrong."""
    known = quiet_known_configuration(options)
    become_state_owner(known.configuration)
    document = status_of(known, time.time())  # noqa: TID251 - the composition root
    if options.json:
        print_json(document)
    else:
        print("\n".join(printable(line) for line in _lines(document)))
    return 1 if document["problems"] else 0


def status_of(known: KnownConfiguration, now: float) -> dict[str, Any]:
    """All that can be known from outside the daemon; `problems` are sentences."""
    configuration, state_path = known.configuration, known.state_file
    hook = configuration.sections.hook
    carried = StateFile(state_path).read()
    document: dict[str, Any] = {
        "time": now,
        "daemon": {True: "runs", False: "absent", None: "unknown"}[daemon_runs(state_path)],
        "daemon_ran_before": may_exist(lock_path(state_path)),
        "mode": hook.mode,
        **_disablement(configuration.disable_file, now),
        "policy": _policy(configuration),
        "metrics": _metrics(configuration),
        "jobs_in_state_file": None if carried is None else len(carried),
        "outstanding": {
            entry.name: entry.words if entry.is_outstanding() else None
            for entry in outstanding_at(state_path)
        },
        "slurm": _batch_system(configuration),  # whichever it is: who reads this knows the key
    }
    document["problems"] = [*_faults(known), *_problems(document, float(hook.cycle))]
    return document


def _faults(known: KnownConfiguration) -> list[str]:
    """What is wrong with the configuration, and from where the rest is known then."""
    if known.is_read:
        return list(known.faults)
    source = f"what is said of mode and policy is what {known.state_file} tells, or a default."
    return [*known.faults, source]


def _disablement(path: Path | None, now: float) -> dict[str, Any]:
    """Whether the daemon is to write nothing; who said so, why and until when."""
    found = None if path is None else read_disable_file(path)
    return {
        "disabled": found is not None and found.counts(now),
        "disable_file": str(path) if path else None,
        "disablement": None if found is None else {**asdict(found), "words": found.words},
    }


def _policy(configuration: Configuration) -> dict[str, Any]:
    model = configuration.sections.policy.model
    told = {"name": model, "sha256": None, "refused": None}
    try:
        from slurm_rl_plugin.services.hook import load_policy  # noqa: PLC0415

        loaded = load_policy(model)
    except SlurmRLError as error:
        return {**told, "refused": str(error)}
    except ImportError as error:
        refused = f"the model cannot be looked at: {error}; install slurm_rl_plugin again."
        return {**told, "refused": refused}
    return {"name": loaded.policy.name, "sha256": loaded.sha256 or None, "refused": None}


def _metrics(configuration: Configuration) -> dict[str, Any]:
    answer = daemon_metrics(configuration)
    return {"unread": answer} if isinstance(answer, str) else asdict(answer)


def _batch_system(configuration: Configuration) -> dict[str, Any]:
    try:
        snapshot = build_batch_system(configuration, []).snapshot()
    except SlurmRLError as error:
        return {"reachable": False, "reason": str(error).rstrip(".")}
    pending = snapshot.pending
    factors = int(np.count_nonzero(pending.factor))
    resources = {each.name: asdict(each) for each in resource_use(snapshot)}
    told = {"pending": len(pending), "with_factor": factors, "resources": resources}
    return {"reachable": True, **told}


def _problems(document: dict[str, Any], pace: float) -> list[str]:
    problems = []
    absent = document["daemon"] == "absent"
    if absent and not document["disabled"]:
        problems.append(_absence(document))
    if document["policy"]["refused"]:
        problems.append(document["policy"]["refused"])
    if not document["slurm"]["reachable"]:
        problems.append(document["slurm"]["reason"] + ".")
    left = [words for words in document["outstanding"].values() if words]
    if not left and document["slurm"].get("with_factor"):
        left = [f"{document['slurm']['with_factor']} pending jobs carry a factor"]
    if absent:
        problems += [
            f"{words}, and no daemon is running to restore it: start the daemon, or run "
            "`slurm-rl release`."
            for words in left
        ]
    return problems + _daemon_problems(document, pace)


def _absence(document: dict[str, Any]) -> str:
    """Why no daemon is a problem in every mode: nobody switched it off, and nothing is decided."""
    if not document["daemon_ran_before"]:
        return f"no daemon has run on this host yet: {_START_IT}"
    lost = "ordered" if document["mode"] == "active" else "decided, recorded or measured"
    return f"no daemon runs, so nothing is {lost} (mode {document['mode']}): {_START_IT}"


def _daemon_problems(document: dict[str, Any], pace: float) -> list[str]:
    """Problems that the daemon's own metrics show, one sentence each."""
    told = document["metrics"]
    if "unread" in told or document["daemon"] == "absent":
        return []
    problems = []
    if told["fallback"]:
        problems.append("the policy is not used, fallback is active: its log says why.")
    if told["batch_limit_fails"]:
        problems.append("the limit on batch jobs cannot be set: the daemon's log says why.")
    if told["cycles"] and not told["up"]:
        problems.append("the last cycle failed: the daemon's log says why.")
    age = document["time"] - told["last_success"]
    stale = age > max(_STALE_CYCLES * pace, _STALE_SECONDS)
    if (
        told["up"]
        and told["mode"] not in ("disabled", "standby")
        and told["last_success"]
        and stale
    ):
        problems.append(
            f"the last good cycle was {slurm_duration(age)} ago: the daemon may hang, restart it."
        )
    return problems


def _lines(document: dict[str, Any]) -> list[str]:
    policy, slurm = document["policy"], document["slurm"]
    carried = document["jobs_in_state_file"]
    sha = f", model {policy['sha256'][:12]}" if policy["sha256"] else ""
    if slurm["reachable"]:
        answer = f"reachable; {slurm['pending']} jobs pending, {slurm['with_factor']} with a factor"
    else:
        answer = "not reachable"
    return [
        f"daemon: {document['daemon']}{_why_absent(document)}",
        f"mode: {document['mode']}{_disabled(document)}",
        f"policy: {policy['name']}{sha}",
        *_metric_lines(document),
        f"state file: {'cannot be read or trusted' if carried is None else f'{carried} jobs'}",
        *(f"outstanding: {words}" for words in document["outstanding"].values() if words),
        f"slurm: {answer}",
        *(
            _resource_line(use)
            for use in slurm.get("resources", {}).values()
            if any(use[key] for key in _AMOUNTS)
        ),
        *(f"problem: {each}" for each in document["problems"]),
        *["all is well"] * (not document["problems"]),
    ]


#: Accounts of which `_service_lines` tells.
_FEWEST_SERVED = 3
_AMOUNTS = ("running", "usable", "pending")


def _resource_line(use: Mapping[str, Any]) -> str:
    running, usable, pending = (
        slurm_size(use[key]) if use["name"] == MEMORY else f"{use[key]:g}" for key in _AMOUNTS
    )
    return f"{use['name']}: {running} of {usable} in use, {pending} asked for by pending jobs"


def _why_absent(document: dict[str, Any]) -> str:
    if document["daemon"] != "absent":
        return ""
    if document["disabled"]:
        return ", and switched off by the disable file: that is no problem"
    return "" if document["daemon_ran_before"] else ", and has not run on this host yet"


def _disabled(document: dict[str, Any]) -> str:
    found = document["disablement"]
    if found is None:
        return ""
    if not document["disabled"]:
        return f"; a pause is over ({found['words']})"
    kind = "disabled" if math.isinf(found["until"]) else "paused"
    return f", {kind} {found['words']}: nothing is written"


def service_lines(served: Mapping[str, Any]) -> list[str]:
    """Who got what in the last fortnight: the part that went wrong, and who got least."""
    if served["misdelivered"] is None:
        return []
    least = sorted(served["entitlement"].items(), key=lambda each: each[1])[:_FEWEST_SERVED]
    named = ", ".join(
        printable(f"{account} {ratio:.2f}{_lifted(served['lifts'].get(account))}")
        for account, ratio in least
    )
    return [
        f"service of a fortnight: {100 * served['misdelivered']:.1f} % to the wrong account; least "
        f"of their entitlement got: {named or 'nobody known'}"
    ]


def _lifted(doublings: float | None) -> str:
    return "" if doublings is None else f" (lifted by {doublings:.2g} doublings)"


def _metric_lines(document: dict[str, Any]) -> list[str]:
    told = document["metrics"]
    if "unread" in told:
        return [f"metrics: {told['unread']}"]
    failed = ", ".join(f"{count} {reason}" for reason, count in told["failures"].items())
    when = slurm_time(told["last_success"]) if told["last_success"] else "never"
    lines = [
        f"daemon's mode: {told['mode']}, fallback {'active' if told['fallback'] else 'no'}",
        f"last success: {when}",
        f"cycles: {told['cycles']}, failed: {failed or '0'}, writes: {told['writes']}",
    ]
    if told["batch_limit"] is not None:
        lines.append(f"batch jobs: {told['batch_limit']} processors together at most")
    lines += service_lines(told)
    served, configured = told["model"].get("sha256", ""), document["policy"]["sha256"] or ""
    if served != configured:
        lines.append(f"daemon's model: {served[:12] or told['model'].get('name')}: not reloaded")
    return lines
