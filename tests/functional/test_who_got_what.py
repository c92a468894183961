"""Shares in `slurm-rl evaluate`: whose they are, and who got what."""

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
    document = typed.json(*words, "--json")
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
        (b"1;physics\n", "users.csv:1: '1;physics' is no user,account: write one pair a line."),
        (b"user,account\n1,\n", "users.csv:2: '1,' is no user,account"),
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
