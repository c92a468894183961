"""`slurm-rl evaluate --goal NAME=VALUE`: what a site wants, tried on a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.typed import Typed

ROW = "{id} {submit} -1 {run} 1 -1 -1 1 {run} -1 1 {group} {group} -1 1 1 -1 -1"
GIVEN = ("--shares", "1=.5,2=.5")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three jobs on one processor; the first runs for an hour while the two others come.

    Job 2 is of account 1, as the first, and asks for ten minutes; job 3 of account 2 for an hour.
    """
    jobs = [(1, 0, 3600, 1), (2, 10, 600, 1), (3, 20, 3600, 2)]
    rows = [ROW.format(id=job, submit=at, run=run, group=who) for job, at, run, who in jobs]
    path = tmp_path / "three.swf"
    path.write_text("\n".join(["; MaxProcs: 1", *rows]) + "\n")
    return path


#: Mean waits of the accounts where job 2 starts at 3600 s and job 3 at 4200, or 3 before 2.
SHORT_FIRST = {"1": (0 + 3590) / 2, "2": 4180}
OTHER_ACCOUNT_FIRST = {"1": (0 + 7190) / 2, "2": 3580}


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        (("--goal", "shares=0", *GIVEN), SHORT_FIRST),
        # account 1 has used twice its share, account 2 nothing: five doublings, 40 points
        (("--goal", "shares=8", *GIVEN), OTHER_ACCOUNT_FIRST),
        (GIVEN, OTHER_ACCOUNT_FIRST),
        # job 2 is of the interactive class
        (("--goal", "shares=8", "--goal", "interactive=100", *GIVEN), SHORT_FIRST),
        (("--goal", "shares=8"), SHORT_FIRST),
        ((), SHORT_FIRST),
    ],
    ids=["no shares", "8 points", "by default", "interactive first", "derived", "none"],
)
def test_shares_count_where_they_are_given(
    log: Path, typed: Typed, words: tuple[str, ...], waits: dict[str, float]
) -> None:
    accounts = typed.json("evaluate", log, "--policy", "default", *words, "--json")["policies"][
        "default"
    ]["accounts"]
    assert {name: each["mean_wait"] for name, each in accounts.items()} == waits
