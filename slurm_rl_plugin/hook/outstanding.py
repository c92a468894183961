"""The one list of what the daemon may have outstanding in the batch system.

The daemon, `status`, `check`, `disable` and `release` loop over it. No other write stays in the
batch system. To add such a write, add an entry to `outstanding_at`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors, StateFile
from slurm_rl_plugin.hook.rails.reserve import BatchLimit
from slurm_rl_plugin.whole_file import beside

#: A kind of write that stays in the batch system until `restore`: its `name` for messages and as a
#: key of `status --json`, the `path` that remembers it, and what may be outstanding now in `words`.
Outstanding = BatchLimit | CarriedFactors


def limits_path(state_file: Path) -> Path:
    """The file that keeps the site's own limits on batch jobs, next to the state file."""
    return beside(state_file, "limits")


def outstanding_at(
    state_file: Path, *, limit: BatchLimit | None = None, factors: CarriedFactors | None = None
) -> tuple[Outstanding, ...]:
    """All that may be outstanding of a daemon."""
    return (
        limit or BatchLimit(path=limits_path(state_file)),
        factors or CarriedFactors(StateFile(state_file)),
    )


def restore_all(entries: Iterable[Outstanding], system: BatchSystem) -> ApplyReport:
    """Restore every entry; one that fails keeps no other from being restored."""
    report, failure = ApplyReport(), None
    for entry in entries:
        try:
            report |= entry.restore(system)
        except Exception as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure
    return report
