"""`slurm-rl status`: whether all is well, as a health check asks it."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.site_options import (
    add_rollback_options,
    become_state_owner,
    known_configuration_of,
)
from slurm_rl_plugin.cli.tables import answer, slurm_size, slurm_time
from slurm_rl_plugin.configuration import Configuration, KnownConfiguration
from slurm_rl_plugin.domain.queue_snapshot import ResourceUse, resource_use
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs, lock_path
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.memory.disable_file import Disablement, read_disable_file
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.configured_site import build_batch_system, daemon_state
from slurm_rl_plugin.whole_file import may_exist

#: Accounts that `service_lines` names.
_FEWEST_SERVED = 3
#: What mends the absence of a daemon, or says that it is meant.
_START_IT = (
    "start it with `systemctl enable --now slurm-rl.service` (`slurm-rl run` without systemd), or "
    "say with `slurm-rl disable --reason TEXT` that it is not to run."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which daemon is looked at: by its configuration or by its state file."""
    add_rollback_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """The configured policy: its name, the digest of its model, and why it cannot be used."""

    name: str
    sha256: str | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The queue now: pending jobs, those of them with a factor, and the use of each resource."""

    pending: int
    with_factor: int
    resources: dict[str, ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All that can be known from outside the daemon."""

    time: float
    daemon: str
    daemon_ran_before: bool
    mode: str
    disabled: bool
    disable_file: str | None
    #: who disabled it, why and until when, also after the end of a pause
    disablement: Disablement | None
    policy: PolicyStatus
    metrics: LiveState | str  #: of the daemon, or why it cannot be read
    jobs_in_state_file: int | None  #: None where the file cannot be read or trusted
    outstanding: dict[str, str | None]  #: name of each entry -> its words where it is outstanding
    #: the queue, or why the batch system, whichever it is, does not answer
    slurm: QueueStatus | str
    problems: tuple[str, ...] = ()  #: sentences

    def document(self) -> dict[str, Any]:
        """As --json prints it."""
        found = asdict(self)
        told = self.metrics
        found["metrics"] = {"unread": told} if isinstance(told, str) else told.document()
        if isinstance(self.slurm, str):
            found["slurm"] = {"reachable": False, "reason": self.slurm}
        else:
            found["slurm"] = {"reachable": True, **found["slurm"]}
        if self.disablement is not None:
            found["disablement"]["words"] = self.disablement.words
        return found


def main(options: argparse.Namespace) -> int:
    """Print what is known of the daemon; 1 when something is wrong."""
    known = known_configuration_of(options, quiet=True)
    become_state_owner(known.configuration)
    status = _status(known, time.time())  # noqa: TID251 - the composition root
    answer(options, status.document(), lambda: print(*map(printable, _lines(status)), sep="\n"))
    return 1 if status.problems else 0


def _status(known: KnownConfiguration, now: float) -> Status:
    configuration, state_path = known.configuration, known.state_file
    hook, disable_file = configuration.sections.hook, configuration.disable_file
    carried = StateFile(state_path).read()
    found = None if disable_file is None else read_disable_file(disable_file)
    status = Status(
        time=now,
        daemon={True: "runs", False: "absent", None: "unknown"}[daemon_runs(state_path)],
        daemon_ran_before=may_exist(lock_path(state_path)),
        mode=hook.mode,
        disabled=found is not None and found.counts(now),
        disable_file=str(disable_file) if disable_file else None,
        disablement=found,
        policy=_policy(configuration),
        metrics=daemon_state(configuration),
        jobs_in_state_file=None if carried is None else len(carried),
        outstanding={
            entry.name: entry.words if entry.is_outstanding() else None
            for entry in outstanding_at(state_path)
        },
        slurm=_queue(configuration),
    )
    problems = list(known.faults)
    if not known.is_read:
        problems.append(
            f"what is said of mode and policy is what {state_path} tells, or a default."
        )
    return replace(status, problems=(*problems, *_problems(status, float(hook.cycle))))


def _policy(configuration: Configuration) -> PolicyStatus:
    model = configuration.sections.policy.model
    try:
        from slurm_rl_plugin.services.hook import load_policy  # noqa: PLC0415

        loaded = load_policy(model)
    except SlurmRLError as error:
        return PolicyStatus(name=model, refused=str(error))
    except ImportError as error:
        refused = f"the model cannot be looked at: {error}; install slurm_rl_plugin again."
        return PolicyStatus(name=model, refused=refused)
    return PolicyStatus(name=loaded.policy.name, sha256=loaded.sha256 or None)


def _queue(configuration: Configuration) -> QueueStatus | str:
    try:
        snapshot = build_batch_system(configuration, []).snapshot()
    except SlurmRLError as error:
        return str(error).rstrip(".")
    return QueueStatus(
        pending=len(snapshot.pending),
        with_factor=int(np.count_nonzero(snapshot.pending.factor)),
        resources={each.name: each for each in resource_use(snapshot)},
    )


def _problems(status: Status, pace: float) -> list[str]:
    problems, left = [], [words for words in status.outstanding.values() if words]
    absent = status.daemon == "absent"
    if absent and not status.disabled and not status.daemon_ran_before:
        problems.append(f"no daemon has run on this host yet: {_START_IT}")
    elif absent and not status.disabled:  # nobody switched it off, and nothing is decided
        lost = "ordered" if status.mode == "active" else "decided, recorded or measured"
        problems.append(f"no daemon runs, so nothing is {lost} (mode {status.mode}): {_START_IT}")
    if status.policy.refused:
        problems.append(status.policy.refused)
    if isinstance(status.slurm, str):
        problems.append(f"{status.slurm}.")
    elif not left and status.slurm.with_factor:
        left = [f"{status.slurm.with_factor} pending jobs carry a factor"]
    if absent:
        problems += [
            f"{words}, and no daemon is running to restore it: start the daemon, or run "
            "`slurm-rl release`."
            for words in left
        ]
    elif not isinstance(status.metrics, str):
        problems += status.metrics.problems(status.time, pace)
    return problems


def _lines(status: Status) -> list[str]:
    policy, carried = status.policy, status.jobs_in_state_file
    sha = f", model {policy.sha256[:12]}" if policy.sha256 else ""
    why_absent = ""
    if status.daemon == "absent" and status.disabled:
        why_absent = ", and switched off by the disable file: that is no problem"
    elif status.daemon == "absent" and not status.daemon_ran_before:
        why_absent = ", and has not run on this host yet"
    return [
        f"daemon: {status.daemon}{why_absent}",
        f"mode: {status.mode}{_disabled(status)}",
        f"policy: {policy.name}{sha}",
        *_metric_lines(status.metrics, policy.sha256 or ""),
        f"state file: {'cannot be read or trusted' if carried is None else f'{carried} jobs'}",
        *(f"outstanding: {words}" for words in status.outstanding.values() if words),
        *_queue_lines(status.slurm),
        *(f"problem: {each}" for each in status.problems),
        *["all is well"] * (not status.problems),
    ]


def _queue_lines(queue: QueueStatus | str) -> list[str]:
    if isinstance(queue, str):
        return ["slurm: not reachable"]
    lines = [f"slurm: reachable; {queue.pending} jobs pending, {queue.with_factor} with a factor"]
    for use in queue.resources.values():
        amounts = (use.running, use.usable, use.pending)
        running, usable, pending = (
            slurm_size(each) if use.name == MEMORY else f"{each:g}" for each in amounts
        )
        if any(amounts):
            lines.append(
                f"{use.name}: {running} of {usable} in use, {pending} asked for by pending jobs"
            )
    return lines


def _disabled(status: Status) -> str:
    found = status.disablement
    if found is None:
        return ""
    if not status.disabled:
        return f"; a pause is over ({found.words})"
    kind = "disabled" if math.isinf(found.until) else "paused"
    return f", {kind} {found.words}: nothing is written"


def service_lines(served: LiveState) -> list[str]:
    """Who got what in the last fortnight: the part that went wrong, and who got least."""
    if served.misdelivered is None:
        return []
    least = sorted(served.entitlement.items(), key=lambda each: each[1])[:_FEWEST_SERVED]
    lifts = {
        account: f" (lifted by {doublings:.2g} doublings)"
        for account, doublings in served.lifts.items()
        if doublings
    }
    named = ", ".join(
        printable(f"{account} {ratio:.2f}{lifts.get(account, '')}") for account, ratio in least
    )
    return [
        f"service of a fortnight: {100 * served.misdelivered:.1f} % to the wrong account; least "
        f"of their entitlement got: {named or 'nobody known'}"
    ]


def _metric_lines(told: LiveState | str, configured: str) -> list[str]:
    if isinstance(told, str):
        return [f"metrics: {told}"]
    failed = ", ".join(f"{count} {reason}" for reason, count in told.failures.items())
    when = slurm_time(told.last_success) if told.last_success else "never"
    lines = [
        f"daemon's mode: {told.mode}, fallback {'active' if told.fallback else 'no'}",
        f"last success: {when}",
        f"cycles: {told.cycles}, failed: {failed or '0'}, writes: {told.writes}",
    ]
    if told.limit.processors is not None:
        lines.append(f"batch jobs: {told.limit.processors} processors together at most")
    lines += service_lines(told)
    served = told.model.get("sha256", "")
    if served != configured:
        lines.append(f"daemon's model: {served[:12] or told.model.get('name')}: not reloaded")
    return lines
