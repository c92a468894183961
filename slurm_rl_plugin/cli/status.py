"""`slurm-rl status`: whether all is well, for a health check or as a page."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.argument_types import result_file
from slurm_rl_plugin.cli.site_options import (
    add_rollback_options,
    become_state_owner,
    known_configuration_of,
)
from slurm_rl_plugin.cli.tables import answer, slurm_size
from slurm_rl_plugin.configuration import Configuration, KnownConfiguration
from slurm_rl_plugin.domain.jobs import ResourceUse, resource_use
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.audit.log import AuditFilter, AuditReader, AuditSummary, audit_files
from slurm_rl_plugin.hook.daemon.lock import daemon_runs, lock_path
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.memory.disable_file import Disablement, read_disable_file
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.configured_site import build_batch_system, daemon_state
from slurm_rl_plugin.whole_file import PRIVATE, may_exist, write_whole

#: What to do if no daemon runs.
_START_IT = (
    "start it with `systemctl enable --now slurm-rl.service` (`slurm-rl run` without systemd), or "
    "state with `slurm-rl disable --reason TEXT` that it must not run."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which daemon is meant, by its configuration or its state file, and the form of the answer."""
    add_rollback_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    page = "write one page of HTML to FILE, or print it"
    form.add_argument("--html", nargs="?", const="", metavar="FILE", help=page)


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
    #: the queue, or why the batch system, whatever its name, does not answer
    slurm: QueueStatus | str
    problems: tuple[str, ...] = ()  #: sentences

    def document(self) -> dict[str, Any]:
        """As --json prints it."""
        found = asdict(self)
        state = self.metrics
        found["metrics"] = {"unread": state} if isinstance(state, str) else state.document()
        if isinstance(self.slurm, str):
            found["slurm"] = {"reachable": False, "reason": self.slurm}
        else:
            found["slurm"] = {"reachable": True, **found["slurm"]}
        if self.disablement is not None:
            found["disablement"]["words"] = self.disablement.words
        return found


def main(options: argparse.Namespace) -> int:
    """Print what is known of the daemon; 1 when something is wrong."""
    known, now = known_configuration_of(options, quiet=True), time.time()  # noqa: TID251 - the root
    page = Path(options.html).absolute() if options.html else None  # root's folder is left next
    become_state_owner(known.configuration)
    status = _status(known, now)
    if page is not None:
        file = result_file("--html", page)
        write_whole(file, _page(known.configuration, status), mode=PRIVATE)
    elif options.html is not None:
        sys.stdout.write(_page(known.configuration, status))
    else:
        answer(options, status.document(), lambda: print(*map(printable, _lines(status)), sep="\n"))
    return 1 if status.problems else 0


def _page(configuration: Configuration, status: Status) -> str:
    from slurm_rl_plugin.metrics.admin_page import AdminView, admin_page  # noqa: PLC0415 - jinja2

    today, unread = _today(configuration.sections.hook.audit_file, status.time)
    view = AdminView(
        now=status.time,
        problems=status.problems,
        facts=_facts(status),
        outstanding=[words for words in status.outstanding.values() if words],
        today=today,
        unread=unread,
    )
    return admin_page(status.metrics, view)


def _today(audit_file: str, now: float) -> tuple[AuditSummary, list[str]]:
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    since, summary = midnight.timestamp(), AuditSummary()
    if not audit_file:
        return summary, ["No audit log is kept: give its path in [hook] audit_file."]
    try:
        found = audit_files(Path(audit_file))
        reader = AuditReader([each for each in found if each.stat().st_mtime >= since])
    except (ConfigurationError, OSError) as error:
        return summary, [str(error)]
    for line in reader.lines(AuditFilter(since=since)):
        summary.add(line)
    return summary, reader.unread


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
        problems.append(f"mode and policy are those that {state_path} holds, or defaults.")
    return replace(status, problems=(*problems, *_problems(status)))


def _policy(configuration: Configuration) -> PolicyStatus:
    model = configuration.sections.policy.model
    try:
        from slurm_rl_plugin.services.hook import load_policy  # noqa: PLC0415

        loaded = load_policy(model)
    except SlurmRLError as error:
        return PolicyStatus(name=model, refused=str(error))
    except ImportError as error:
        refused = f"the model cannot be loaded: {error}; install slurm_rl_plugin again."
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


def _problems(status: Status) -> list[str]:
    problems, left = [], [words for words in status.outstanding.values() if words]
    absent = status.daemon == "absent"
    if absent and not status.disabled and not status.daemon_ran_before:
        problems.append(f"no daemon has run on this host yet: {_START_IT}")
    elif absent and not status.disabled:
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
        problems += status.metrics.problems(status.time)
    return problems


def _lines(status: Status) -> list[str]:
    return [
        *_facts(status),
        *(f"outstanding: {words}" for words in status.outstanding.values() if words),
        *(f"problem: {each}" for each in status.problems),
        *["all is well"] * (not status.problems),
    ]


def _facts(status: Status) -> list[str]:
    policy, carried = status.policy, status.jobs_in_state_file
    sha = f", model {policy.sha256[:12]}" if policy.sha256 else ""
    why_absent = ""
    if status.daemon == "absent" and status.disabled:
        why_absent = " (switched off by the disable file, as intended)"
    elif status.daemon == "absent" and not status.daemon_ran_before:
        why_absent = " (has not run on this host yet)"
    return [
        f"daemon: {status.daemon}{why_absent}",
        f"mode: {status.mode}{_disabled(status)}",
        f"policy: {policy.name}{sha}",
        *_state_lines(status.metrics, policy.sha256 or ""),
        f"state file: {'cannot be read or trusted' if carried is None else f'{carried} jobs'}",
        *_queue_lines(status.slurm),
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


def _state_lines(state: LiveState | str, configured: str) -> list[str]:
    if isinstance(state, str):
        return [f"metrics: {state}"]
    *lines, policy = state.lines()
    is_reloaded = state.model.get("sha256", "") == configured
    return lines if is_reloaded else [*lines, f"{policy}: not reloaded"]
