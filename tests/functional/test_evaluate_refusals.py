"""`slurm-rl evaluate`: what does not go together, or cannot be done, is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.typed import Typed

SMALL, WEEKS = "mmn:load=.8,jobs=3000,seed=3", "egee:jobs=800,processors=5,load=.85,seed=1"
NO_LOG, HUGE = "/none.swf", "9" * 21
HELDOUT = f"{SMALL} --protocol heldout --windows 100"
CONTINUOUS = f"{SMALL} --protocol continuous"
SITE = f"{SMALL} --config site.toml"
GOAL = f"{SMALL} --policy default --goal"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (f"{HELDOUT} --estimates oracle", "--estimates does not go with --protocol heldout"),
        (f"{HELDOUT} --estimates-from {SMALL}", "--estimates-from does not go with"),
        (f"{HELDOUT} --drop 1,1", "--drop does not go with --protocol heldout"),
        (f"{HELDOUT} --reserve 2", "--reserve does not go with --protocol heldout"),
        (f"{HELDOUT} --reserve-as limit", "--reserve-as does not go with --protocol heldout"),
        (f"{HELDOUT} --resample 3", "--resample does not go with --protocol heldout"),
        (f"{HELDOUT} --backfill none", "--backfill does not go with --protocol heldout"),
        (f"{HELDOUT} --backfill conservative", "easy"),
        (f"{HELDOUT} --timing", "--timing does not go with --protocol heldout"),
        (f"{HELDOUT} --users", "--users does not go with --protocol heldout"),
        (f"{HELDOUT} --plot figures", "--plot draws schedules"),
        (f"{HELDOUT} --export schedules", "--export does not go with --protocol heldout"),
        (f"{HELDOUT} --policy native", "policy native does not go with --protocol heldout"),
        (f"{HELDOUT} --policy lifo", "'lifo'"),
        (f"{HELDOUT} --goal shares=8", "--goal does not go with --protocol heldout"),
        (f"{HELDOUT} --runs 2", "--runs belongs to --protocol continuous"),
        (f"{HELDOUT} --windows 99", "99 windows are too few: give 100 at least"),
        (f"{HELDOUT} --windows many", "--windows"),
        (f"{HELDOUT} --config /none.toml", "/none.toml"),
        (f"{SMALL} --windows 100", "--windows belongs to --protocol heldout"),
        (f"{CONTINUOUS} --windows 100", "--windows belongs to --protocol heldout"),
        (f"{CONTINUOUS} --backfill none", "--backfill does not go with --protocol continuous"),
        (f"{CONTINUOUS} --policy native", "policy native does not go with --protocol"),
        (f"{CONTINUOUS} --policy lifo", "'lifo'"),
        (f"{SITE} --backfill none", "--backfill does not go with --config"),
        (f"{SITE} --drop 1,1", "--drop does not go with --config"),
        (f"{SITE} --scale-load 2", "--scale-load does not go with --config"),
        (f"{SITE} --goal shares=8", "--goal does not go with --config, whose [goals] count"),
        (f"{SITE} --policy lifo", "'lifo'"),
        (f"{GOAL} age=1", "'age' is no goal: give one of shares, short_jobs, wide_jobs, longest"),
        (f"{GOAL} shares", "goal shares is '', give a number"),
        (f"{GOAL} shares=many", "goal shares is 'many', give a number"),
        (f"{GOAL} shares=-1", "goal shares is -1.0, give at least 0 and at most 100"),
        (f"{GOAL} short_jobs=11", "goal short_jobs is 11.0, give at least 0 and at most 10"),
        (f"{GOAL} wide_jobs=nan", "goal wide_jobs is nan, give at least 0 and at most 10"),
        (f"{GOAL} interactive=inf", "goal interactive is inf, give a finite number"),
        (f"{NO_LOG} --backfill slurm", "--backfill slurm is simulated on nodes: give --cluster"),
        (f"{SMALL} --scale-load 0", "--scale-load"),
        (f"{SMALL} --scale-load nan", "--scale-load"),
        (f"{SMALL} --scale-load fast", "--scale-load"),
        (f"{SMALL} --scale-load 2 --policy native", "leave out native or --scale-load"),
        (f"{SMALL} --resample 1", "--resample"),
        (f"{SMALL} --resample many", "--resample"),
        (f"{SMALL} --resample 3 --seed -1", "--seed"),
        (f"{WEEKS} --resample 3 --policy fifo", "give --policy twice at least"),
        (f"{WEEKS} --resample 3 --scale-load 20", "resampling draws whole weeks"),
        (f"{WEEKS} --resample 20 --drop 780,10", "--drop 780,10 leaves none of the"),
        (f"{NO_LOG} --cycle nan", "'nan' is no number of seconds from 0 to 3.1536e+07"),
        (f"{NO_LOG} --cycle inf", "'inf' is no number of seconds"),
        (f"{NO_LOG} --cycle -3", "'-3' is no number of seconds"),
        (f"{NO_LOG} --cycle 1e300", "'1e300' is no number of seconds"),
        (f"{NO_LOG} --processors {HUGE}", f"'{HUGE}' is too large: give 2147483647 at most"),
        (f"{NO_LOG} --processors 0", "--processors: '0' is no whole number of at least 1"),
        (f"{NO_LOG} --processors x", "--processors: 'x' is no whole number of at least 1"),
        (f"{NO_LOG} --whole-nodes-of {HUGE}", "--whole-nodes-of: '999"),
        (f"{NO_LOG} --reserve {HUGE}", "--reserve: '999"),
        (f"{NO_LOG} --reserve -3", "--reserve: '-3' is no whole number of at least 0"),
        (f"{NO_LOG} --drop 3", "--drop: '3' is not FIRST,LAST: write two whole numbers"),
        (f"{NO_LOG} --drop -1,5", "--drop: '-1,5' is not FIRST,LAST: write two whole numbers"),
        (f"{NO_LOG} --drop -.5,5", "--drop: '-.5,5' is not FIRST,LAST"),
        (f"{SMALL} --drop 1500,1500", "--drop 1500,1500 leaves none of the 3000 jobs to count"),
        (f"{NO_LOG} --shares vo0=2", "one share for each account, together 1 (see slurm-rl eval"),
        (f"{NO_LOG} --shares a", "'a' is no share: write account=fraction"),
        (f"{NO_LOG} --partitions a", "'a' is no partition: write name=processors"),
        (f"{NO_LOG} --policy nonsense", "nonsense"),
        (f"{NO_LOG} --policy /none.onnx", "/none.onnx"),
        (f"{NO_LOG} --estimates psychic", "psychic"),
        (f"{SMALL} --config /none.toml", "/none.toml"),
        (NO_LOG, "/none.swf"),
        (f"{SMALL} --export /dev/null/folder", "--export /dev/null/folder"),
        (f"{SMALL} --plot /dev/null/folder", "--plot /dev/null/folder"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text("")
    status, out, err = typed("evaluate", *words.split())
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert named in err
