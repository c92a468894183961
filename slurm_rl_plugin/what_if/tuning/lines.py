"""Lines of configurations that a search found, commented: an administrator alone applies them."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.what_if.tuning.space import words_of

_PARAMETERS = "SchedulerParameters"


def conf_lines(cluster: DescribedCluster, changes: Mapping[str, str]) -> list[str]:
    """A line for each key, with what it is now before it; all of them comments.

    Args:
        cluster: as it is said to be.
        changes: key -> value.
    """
    after = changed(cluster, words_of(changes)).said.settings
    lines: list[str] = []
    keys = [key for key in changes if not key.islower()]
    if len(keys) < len(changes):
        keys.append(_PARAMETERS)
    for key in keys:
        now = cluster.said.settings.get(key.lower())
        lines.append(f"# now: {key}={now.text}" if now is not None else f"# now: no {key}")
        lines.append(f"# {key}={after[key.lower()].text}")
    return lines


def policy_lines(rule: str) -> list[str]:
    """Lines of our own file that let the hook order by a rule; all of them comments.

    Args:
        rule: as `evaluate` calls it; of one that no live queue can be ordered by, that is said.
    """
    named = named_policy(rule)
    if named is not None and named.needs_log:
        return [f"# The daemon cannot order by {rule}: {named.needs_log}."]
    return ["# [policy]", f'# model = "{rule}"']
