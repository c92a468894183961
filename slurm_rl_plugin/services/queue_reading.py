"""Decides on the present queue with the configured policy, for commands that write nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.experiment.turns import RUNNING, ExperimentFiles
from slurm_rl_plugin.hook.memory.carried_factors import MemoryFile, memory_path
from slurm_rl_plugin.hook.order.queue_plan import ConsideredJobs
from slurm_rl_plugin.hook.rails.reserve import (
    FALLBACK,
    KEPT,
    NOBODY,
    OFF,
    STARVING,
    UNWANTED,
    LimitReport,
)
from slurm_rl_plugin.services.hook import LoadedPolicy, build_cycle, load_policy_or_fall_back

#: Sentences for each reason.
REASONS = {
    OFF: "[reserve] is off",
    UNWANTED: "the policy keeps nothing free",
    NOBODY: "no interactive job has come for a long time",
    STARVING: "a batch job of several processors has waited for too long",
    FALLBACK: "the policy is not used",
    KEPT: "processors are kept free for interactive jobs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """The order that a cycle would decide now, for verbs that write nothing."""

    cycle: Cycle  #: that would decide; it is never run
    loaded: LoadedPolicy  #: its policy
    considered: ConsideredJobs  #: the pending jobs
    asked_accounting: bool  #: the past runs came from accounting, as at a start of the daemon


def look_at_queue(configuration: Configuration) -> QueueLook:
    """Decide on the present queue as a cycle in shadow mode would, and write nothing.

    If a daemon runs, its memory knows the past runs. Else accounting is queried as at a start, and
    the deadline of a decision does not apply: the first one learns from a month of runs and may be
    late, which costs a daemon one cycle and would leave a command without an answer.
    """
    loaded = load_policy_or_fall_back(configuration.sections.policy.model)
    state = Path(configuration.sections.hook.state_file)
    memory = MemoryFile(path=memory_path(state), model_sha256=loaded.sha256, read_only=True)
    asks = loaded.learns_from_runs and not (daemon_runs(state) and memory.read() is not None)
    cycle = build_cycle(configuration, replace(loaded, learns_from_runs=asks))
    cycle.settings = replace(cycle.settings, shadow=True)
    if asks:
        cycle.settings = replace(cycle.settings, inference_deadline=math.inf)
    considered = ConsideredJobs.of(cycle.look(), cycle.untouched)
    return QueueLook(cycle=cycle, loaded=loaded, considered=considered, asked_accounting=asks)


def experiment_sentence(configuration: Configuration) -> str:
    """A note that an experiment runs; "" if none does. Whose turn it is is not said."""
    files = ExperimentFiles(state_file=Path(configuration.sections.hook.state_file))
    try:
        declared = files.declared()
        if declared is None or files.stands().state != RUNNING:
            return ""
    except (OSError, ValueError):
        return ""
    return (
        f"an experiment runs, {declared.policy} against {declared.against}: this is the order "
        "of the configured model, in either order's turn."
    )


def limit_sentence(limit: LimitReport) -> str:
    """What a decision means for batch jobs."""
    if limit.amounts is None:
        return f"batch jobs have no limit of the daemon: {REASONS[limit.reason]}."
    amounts = " and ".join(amount_words(name, each) for name, each in limit.amounts.items())
    return f"batch jobs may use {amounts} together: {REASONS[limit.reason]}."


def amount_words(name: str, amount: int) -> str:
    """An amount of a resource, for people."""
    if name == CPUS:
        return f"{amount} processors"
    if name == MEMORY:
        return f"{amount / 1024:.4g} GiB of memory"
    return f"{amount} GPUs" if name == GPUS else f"{amount} {name}"
