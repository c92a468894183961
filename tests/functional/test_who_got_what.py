"""Who got what: accounts of a file, and goals that are tried on a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.small_site import write_busy_log
from tests.functional.typed import Typed


def test_users_have_the_accounts_of_a_file(typed: Typed, tmp_path: Path) -> None:
    log, users = tmp_path / "log.swf", tmp_path / "users.csv"
    write_busy_log(log)
    users.write_text("user,account\n1,physics\n2,physics\n3,arts\n")
    shares = ["--shares", "physics=.25,arts=.75"]
    policies = ["--policy", "multifactor", "--policy", "fifo", "--backfill", "easy"]
    words = ["evaluate", str(log), "--account-of", str(users), *shares, *policies]
    document = typed.json(*words)
    assert document["log"]["shares_from"] == "options"
    parts = {}
    for name, entry in document["policies"].items():
        accounts = entry["accounts"]
        assert {each: found["share"] for each, found in accounts.items()} == {
            "physics": 0.25, "arts": 0.75,
        }  # fmt: skip
        for found in accounts.values():
            assert found["ratio"] == pytest.approx(found["delivered"] / found["entitled"])
        whole = [sum(each[key] for each in accounts.values()) for key in ("delivered", "entitled")]
        assert whole[0] == pytest.approx(whole[1])
        parts[name] = entry["misdelivered"]
        assert set(parts[name]) == {"fortnight", "quantile05", "kept95", "windows"}
    assert parts["multifactor"]["fortnight"] < parts["fifo"]["fortnight"]
    printed = typed.out(*words)
    assert "POLICY       MISDELIVERED  KEPT95  arts (0.75)  physics (0.25)" in printed
    assert "Shares: as given." in printed
    printed = typed.out("evaluate", log)
    assert "Shares: none configured; derived from past work, which promises nothing." in printed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"1;physics\n", "users.csv:1: '1;physics' is not user,account: give one pair a line."),
        (b"user,account\n1,\n", "users.csv:2: '1,' is not user,account"),
        (b"1,a\n1,b\n", "users.csv:2: user 1 has two accounts, a and b: keep one."),
        (b"\xff,a\n", "users.csv cannot be read: it is not UTF-8."),
        (None, "users.csv cannot be read: No such file or directory."),
    ],
)
def test_a_faulty_file_of_accounts_gets_one_sentence(
    typed: Typed, tmp_path: Path, text: bytes | None, sentence: str
) -> None:
    log, users = tmp_path / "log.swf", tmp_path / "users.csv"
    write_busy_log(log)
    if text is not None:
        users.write_bytes(text)
    errors = typed.refused("evaluate", log, "--account-of", str(users))
    assert len(errors.splitlines()) == 1
    assert sentence in errors


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
    accounts = typed.json("evaluate", log, "--policy", "default", *words)["policies"]["default"][
        "accounts"
    ]
    assert {name: each["mean_wait"] for name, each in accounts.items()} == waits
