"""The limit on batch jobs in a sentence."""

from __future__ import annotations

from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.hook.rails.batch_limit import FALLBACK, OFF, LimitReport
from slurm_rl_plugin.hook.rails.reserve import KEPT, NOBODY, STARVING, UNWANTED

#: What the operator reads for each reason.
REASONS = {
    OFF: "[reserve] is off",
    UNWANTED: "the policy keeps nothing free",
    NOBODY: "no interactive job has come for long",
    STARVING: "a batch job of several processors has waited for too long",
    FALLBACK: "the policy is not used",
    KEPT: "processors are kept free for interactive jobs",
}


def limit_sentence(limit: LimitReport) -> str:
    """What a decision means for batch jobs."""
    if limit.amounts is None:
        return f"batch jobs have no limit of ours: {REASONS[limit.reason]}."
    amounts = " and ".join(amount_words(name, each) for name, each in limit.amounts.items())
    return f"batch jobs may use {amounts} together: {REASONS[limit.reason]}."


def amount_words(name: str, amount: int) -> str:
    """An amount of a resource, for people."""
    if name == CPUS:
        return f"{amount} processors"
    if name == MEMORY:
        return f"{amount / 1024:.4g} GiB of memory"
    return f"{amount} GPUs" if name == GPUS else f"{amount} {name}"
