"""Lines of slurm.conf that a search found, commented: nobody applies them but an administrator."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster
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
