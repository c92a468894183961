"""The limit on batch jobs in a sentence."""

from __future__ import annotations

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
    if limit.processors is None:
        return f"batch jobs have no limit of ours: {REASONS[limit.reason]}."
    return f"batch jobs may use {limit.processors} processors together: {REASONS[limit.reason]}."
