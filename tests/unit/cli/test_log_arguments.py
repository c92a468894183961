"""LOG arguments: a part of a log, its machine, shares of its accounts, and limits."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.log_arguments import LogExcerpt, add_log_options, read_named_logs
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.functional.typed import Typed, rows_of


def read(argument, *words):
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    return read_named_logs([argument], LogOptions.of(parser.parse_args(words)))[0]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "site@home=1.swf"  # an @ in the path itself
    whole = generated_log("mmn:jobs=300,processors=10,load=.5,seed=2")
    write_swf(path, whole, comments=[])
    return str(path)


def test_what_stands_behind_the_sign_is_read() -> None:
    for plain in ("site.swf.gz", "me@home/site.swf"):
        assert LogExcerpt.of(plain) == LogExcerpt(log=plain)
    assert LogExcerpt.of("a.swf@jobs=10:40,load=.7,processors=6") == LogExcerpt(
        log="a.swf", first=10, last=40, load=0.7, processors=6
    )


def test_a_part_has_the_jobs_the_load_and_the_machine_asked_for(log: str) -> None:
    whole, part = read("mmn:jobs=300,seed=2"), read("mmn:jobs=300,seed=2@jobs=50:120")
    np.testing.assert_array_equal(part.prepared.log.submit, whole.prepared.log.submit[50:120])
    assert part.name == "mmn:jobs=300,seed=2@jobs=50:120"
    dense = read("mmn:jobs=300,seed=2@load=.8,processors=20").prepared
    assert dense.capacity == 20
    asked = dense.log.run_time.sum() / (20 * (dense.log.submit[-1] - dense.log.submit[0]))
    assert asked == pytest.approx(0.8)
    np.testing.assert_array_equal(dense.log.run_time, whole.prepared.log.run_time)
    assert [len(read(each).prepared.log) for each in (log, f"{log}@jobs=0:100")] == [300, 100]


@rows_of("a part of a log")
def test_faults_are_told_in_one_sentence(words: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(f"mmn:jobs=300,seed=2@{words}")


def test_one_week_is_one_week():
    with pytest.raises(ConfigurationError, match=r"a.swf has 1 whole week: weeks=2 are more"):
        LogExcerpt(log="a.swf", weeks=2).drawn_weeks(0.0, 8 * 86400.0)


#: Each a job of four processors and 300 s: number, state, start and end.
_HEADER = "JobIDRaw|User|Account|Partition|Submit|Start|End|TimelimitRaw|NCPUS|State"
_SWF = "{} 0 0 100 4 -1 -1 4 100 -1 1 1 1 -1 1 1 -1 -1"


def dump(folder: Path, state: str, start: str, end: str) -> str:
    """A dump of two similar jobs."""
    path = folder / "site.sacct"
    rows = [f"{each}|u|physics|p|1000|{start}|{end}|60|4|{state}" for each in (1, 2)]
    path.write_text("\n".join([_HEADER, *rows]) + "\n")
    return str(path)


def test_a_log_without_a_job_that_ran_says_so_and_asks_for_no_processors(
    tmp_path: Path, typed: Typed
) -> None:
    log = dump(tmp_path, "PENDING", "Unknown", "Unknown")
    assert typed.refused("limits", log) == (
        f"slurm-rl limits: {log}: none of its 2 records is a job that ran (2 not finished): give a "
        "log of jobs that have ended.\n"
    )


def test_weeks_are_not_drawn_of_a_log_without_a_job(tmp_path: Path, typed: Typed) -> None:
    log, stored = dump(tmp_path, "PENDING", "Unknown", "Unknown"), tmp_path / "site.parquet"
    model = str(tmp_path / "model.onnx")
    for words in (("convert", log, "-o", stored), ("train", f"{log}@weeks=2", "-o", model)):
        assert f"{log}: none of its 2 records is a job that ran" in typed.refused(*words)
    assert not stored.exists()


def test_a_request_that_no_reader_reads_is_said(tmp_path: Path, typed: Typed) -> None:
    log, stored = tmp_path / "20260101", tmp_path / "site.parquet"
    log.write_text(
        "01/01/2026 00:00:00;E;1.s;user=u queue=q ctime=1 start=2 end=99 Resource_List.ncpus=1 "
        "Resource_List.matlab=2\n"
    )
    told = typed.out("convert", log, "-o", stored)
    assert "kept, but Resource_List.matlab is not read       1" in told
    for each in (log, stored):
        said = f"slurm-rl: {each}: Resource_List.matlab is not read; 1 jobs have it.\n"
        assert said in typed("limits", each)[2]


def test_jobs_that_fit_no_machine_are_told_with_its_size(tmp_path: Path, typed: Typed) -> None:
    log = dump(tmp_path, "COMPLETED", "1010", "1310")
    told = "no job of the log fits the machine of 2 processors (2 wider than the machine)."
    assert told in typed.refused("limits", log, "--processors", "2")


def test_a_size_that_nobody_told_is_said_to_be_a_guess(tmp_path: Path, typed: Typed) -> None:
    log = dump(tmp_path, "COMPLETED", "1010", "1310")
    guess = "does not give the size of the machine: 8 processors, the most in use at once"
    words = ("evaluate", log, "--policy", "fifo")
    assert guess in typed.out(*words)
    assert "size of the machine" not in typed.out(*words, "--processors", "8")


def test_a_recorded_order_that_had_a_larger_machine_is_not_compared_in_silence(
    tmp_path: Path, typed: Typed
) -> None:
    log = tmp_path / "wide.swf"
    log.write_text("\n".join(["; MaxProcs: 4", *(_SWF.format(each) for each in range(3))]) + "\n")
    words = ("evaluate", log, "--policy", "native")
    assert "native used 3.0 times the 4 processors of this machine" in typed.out(*words)
    assert "times the" not in typed.out(*words, "--processors", "12")


@pytest.fixture
def accounts(tmp_path: Path) -> str:
    """Jobs of the accounts 1 to 3."""
    path = tmp_path / "site.swf"
    drawn = generated_log("mmn:jobs=60,processors=4,seed=2")
    three = replace(drawn, accounts=("1", "2", "3"), account=np.arange(len(drawn)) % 3)
    write_swf(path, three, comments=["MaxProcs: 4"])
    return str(path)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ("1=.5,2=.2,3=.3", ""),
        ("1=.5,_other=.5", ""),
        ("1=.5,9=.5", "9 have no jobs; 2, 3 have jobs and no share."),
        ("1=.5,_other=.3,8=.1,9=.1", "8, 9 have no jobs."),
        (
            ",".join(f"a{place}=.1" for place in range(10)),
            "a0, a1, a2, a3, a4, a5, a6, a7 and 2 more have no jobs; 1, 2, 3 have jobs and no "
            "share.",
        ),
    ],
)
def test_accounts_that_do_not_meet_are_named(
    shares: str, said: str, accounts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    read(accounts, "--shares", shares)
    expected = f"slurm-rl: --shares and {accounts}: {said}\n" if said else ""
    assert capsys.readouterr().err == expected


@pytest.fixture
def log_without_limits(tmp_path: Path) -> str:
    """Jobs of one user, without limits."""
    path = tmp_path / "plain.swf"
    drawn = generated_log("mmn:jobs=60,processors=4,seed=2")
    drawn = replace(drawn, time_limit=np.full(len(drawn), np.nan))
    write_swf(path, drawn, comments=["MaxProcs: 4"])
    return str(path)


def test_users_without_jobs_and_jobs_without_limits_are_sentences(
    log_without_limits: str, typed: Typed
) -> None:
    told = typed.refused("limits", log_without_limits, "-u", "nosuch")
    assert "-u nosuch: plain.swf has no job of this user: give another." in told
    output = typed.out("limits", log_without_limits)
    assert "These jobs have no time limit" in output
    assert "LIMIT/RUN" not in output
    assert "No limit is advised" not in output


def test_jobs_without_a_limit_are_counted_beside_those_with_one(
    tmp_path: Path, typed: Typed
) -> None:
    """Each of fifteen accounts has a job with a limit and one without; twelve are shown."""
    path = tmp_path / "some.swf"
    drawn = generated_log("mmn:jobs=30,processors=4,seed=2")
    accounts = tuple(f"account{each}" for each in range(15))
    drawn = replace(
        drawn,
        account=np.arange(30) % 15,
        accounts=accounts,
        time_limit=np.where(np.arange(30) < 15, 9e9, np.nan),
    )
    write_swf(path, drawn, comments=["MaxProcs: 4"])
    output = typed.out("limits", path, "--days", "999")
    assert "15 of them have no time limit and are left out below." in output
    assert "3 more accounts: see --json." in output
