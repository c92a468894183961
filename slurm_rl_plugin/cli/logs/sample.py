"""Which part of a large log is trained on, where nobody says it: some weeks from all its time."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm_rl_plugin.accounting.log_format import is_stored
from slurm_rl_plugin.cli.logs.excerpt import whole_weeks

#: A stored log of more jobs is not trained on whole.
MOST_JOBS = 500_000
#: Weeks taken of it: as many as hold about so many jobs, within these bounds.
FEWEST_WEEKS, MOST_WEEKS = 2, 26


def sampled(argument: str) -> str:
    """The LOG argument, with the weeks that are drawn of it where the log is a large one.

    Raises:
        AccountingLogError: the file is broken.
    """
    path = Path(argument)
    if not is_stored(path):
        return argument
    from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415 - an extra's

    stored = StoredLog(path)
    if len(stored) <= MOST_JOBS:
        return argument
    there = whole_weeks(*stored.first_and_last_submit())
    weeks = min(max(MOST_JOBS * there // len(stored), FEWEST_WEEKS), MOST_WEEKS)
    if there <= weeks:
        return argument
    print(
        f"slurm-rl: {argument} holds {len(stored):,} jobs of {there} weeks: {weeks} weeks are "
        "drawn; @weeks=N behind it takes others.",
        file=sys.stderr,
    )
    return f"{argument}@weeks={weeks}"
