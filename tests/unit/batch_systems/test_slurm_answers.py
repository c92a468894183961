"""The parsers on answers of real Slurm releases, recorded by record_slurm_answers.py."""

from __future__ import annotations

import gc
import itertools
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.slurm.answers import fields
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    QUEUE_FIELDS,
    QueueRow,
    parse_capacity,
    parse_count,
    parse_records,
)
from slurm_rl_plugin.batch_systems.slurm.answers.machine import parse_shares, usage_now
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    BUSY_THREADS,
    parse_load,
    parse_settings,
)
from slurm_rl_plugin.batch_systems.slurm.queue.reader import parse_runs, whole_jobs
from slurm_rl_plugin.batch_systems.slurm.site_factor import (
    PRINTED_TERMS,
    _refusal,
    parse_priorities,
    parse_terms,
)
from slurm_rl_plugin.domain import RunningJobs
from slurm_rl_plugin.errors import BatchSystemError
from tests import case_files
from tests.assets.record_slurm_answers import MARK
from tests.unit.hook.queues import job_table


def parse_queue(text: str, mark: str = MARK) -> list[QueueRow]:
    return list(parse_records(text, mark, {}).values())


@pytest.fixture
def jobs(answers: Path) -> dict[str, int]:
    numbers: dict[str, int] = json.loads(answers.joinpath("jobs.json").read_text())
    return numbers


@pytest.fixture
def rows(answers: Path) -> dict[int, QueueRow]:
    text = answers.joinpath("squeue.txt").read_text()
    return {row.job_id: row for row in parse_queue(text)}


@pytest.fixture
def terms(answers: Path) -> dict[int, Any]:
    return priorities(answers.joinpath("sprio.txt").read_text())


def priorities(text: str) -> dict[int, Any]:
    return {int(job["job_id"]): job for job in parse_priorities(text).best({})}


def test_looks_with_ever_new_marks_keep_nothing(answers: Path) -> None:
    text = answers.joinpath("squeue.txt").read_text()

    def look(number: int) -> int:
        mark = f"{number:08x}"
        return len(parse_queue(text.replace(f"|{MARK}|", f"|{mark}|"), mark))

    re.purge()  # what is kept there may be full already
    assert look(0) > 1
    grown = []
    for begin in (1, 200, 400):  # threads of other tests may end or begin meanwhile
        gc.collect()
        before = sys.getallocatedblocks()
        for number in range(begin, begin + 199):
            look(number)
        gc.collect()
        grown.append(sys.getallocatedblocks() - before)
    assert min(grown) < 100  # a pattern for each look: 800


def with_priorities(text: str, change: Callable[[int], int]) -> str:
    """The answer with other points in each record."""
    begin = rf"(\d+\|{MARK}\|(?:[^|]*\|){{3}})(\d+)(?=\|)"
    return re.sub(begin, lambda found: f"{found[1]}{change(int(found[2]))}", text)


@pytest.mark.parametrize(
    "change",
    [lambda points: points + 7 if points else 0, lambda points: 0, lambda points: points + 7],
    ids=["other points", "held", "released"],
)
def test_only_a_record_that_is_held_or_released_is_read_again(
    answers: Path, change: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers.joinpath("squeue.txt").read_text()
    text = with_priorities(before, change)
    assert text != before
    known, anew = parse_records(before, MARK, {}), parse_queue(text)
    points = [row.priority for row in known.values()]
    if all((change(each) == 0) == (each == 0) for each in points):
        monkeypatch.setattr(fields, "_parse_record", lambda *_: pytest.fail("it was read"))
    kept = parse_records(text, MARK, known)
    assert list(map(str, kept.values())) == list(map(str, anew))  # NaN is not itself
    # what is computed of a row is kept, and whether it is held is part of that
    for row, earlier, then in zip(kept.values(), known.values(), points, strict=True):
        assert row is not earlier or (row.priority == 0) == (then == 0)
    monkeypatch.undo()
    unheard = with_priorities(before, lambda points: 2**53 + 1)
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_records(unheard, MARK, known)


def test_a_record_that_differs_in_more_is_read_again(answers: Path) -> None:
    text = answers.joinpath("squeue.txt").read_text()
    known = parse_records(text, MARK, {})
    refused, priority = 0, QUEUE_FIELDS.index("PriorityLong")
    others = [place for place in range(1, len(QUEUE_FIELDS)) if place != priority]
    records = list(zip(fields._records(text, MARK), known.values(), strict=True))
    for place, (record, row) in itertools.product(others, records):
        values = record.split("|", len(QUEUE_FIELDS) - 1)
        value = values[place]
        values[place] = str(int(value) + 1) if value.isdecimal() else f"{value}+"
        values[priority] = "77"
        changed = f"{values[0]}|{MARK}|{'|'.join(values[1:])}\n"
        try:
            (found,) = parse_records(changed, MARK, known).values()
        except BatchSystemError:  # no such time, and read all the same
            refused += 1
            continue
        (anew,) = parse_records(changed, MARK, {}).values()
        assert str(found) == str(anew) != str(replace(row, priority=77))
    assert refused < len(others) * len(known) / 2


def test_of_two_partitions_of_one_total_the_first_speaks_at_every_look() -> None:
    for age in range(1, 41):  # our factor is so low that Slurm cuts both totals at 1
        terms = f"1|-50000|0|{age}|0|0|0"
        told = parse_priorities(f"1|short|{terms}|10|0|\n1|long|{terms}|9000|0|\n")
        assert told.best({})["native"].tolist() == [age + 10]


def test_rows_of_each_release(jobs: dict[str, int], rows: dict[int, QueueRow]) -> None:
    assert {rows[number].name: number for number in jobs.values()} == jobs
    assert {rows[number].account for number in jobs.values()} == {"physics", "biology"}
    of = {name: rows[number] for name, number in jobs.items()}
    running, ended = of["running"], of["ended"]
    assert (running.state, running.processors, running.nodes) == ("RUNNING", 3, "n1")
    assert running.submit <= running.eligible <= running.start
    assert running.end - running.start == running.time_limit  # expected, not known
    assert ended.state in FINAL_STATES
    assert 0 <= ended.end - ended.start <= 10
    assert math.isnan(of["held"].end)
    assert [of[name].held for name in ("held", "plain")] == [True, False]
    assert of["dependency"].eligible == of["held"].eligible == math.inf
    assert 3590 < of["begins later"].eligible - of["begins later"].submit < 3610
    assert math.isnan(of["no limit known"].time_limit)
    assert (of["plain"].time_limit, of["nice"].nice) == (300, 50)
    assert of["two partitions"].partitions == ("batch", "short")
    assert running.partitions == ("batch",)
    assert of["array"].tasks == "1-20%5"
    # squeue merges split tasks that wait for the same reason into the array's own record
    split = [row for row in rows.values() if row.array_id == jobs["split array"]]
    assert [(row.job_id, row.tasks) for row in split] == [(jobs["split array"], "1-4")]


def test_components_are_one_job(jobs: dict[str, int], rows: dict[int, QueueRow]) -> None:
    leader = jobs["heterogeneous"]
    together = {row.job_id: row for row in whole_jobs(list(rows.values()))}
    assert rows.keys() - together.keys() == {leader + 1, leader + 2}
    whole = together[leader]
    assert (whole.processors, whole.partitions[0], whole.het_id) == (6, "batch", leader)
    assert [row.partitions[0] for row in whole.components] == ["batch", "batch", "short"]
    assert whole.priority == min(row.priority for row in whole.components)
    assert {job for job, row in together.items() if row.het_id} == {leader}


def test_past_runs(jobs: dict[str, int], rows: dict[int, QueueRow], answers: Path) -> None:
    runs, strange = parse_runs(answers.joinpath("sacct.txt").read_text())
    assert strange == []
    of = {run.job_id: run for run in runs}
    assert set(of) == {jobs["ended"], jobs["whole node"]}
    for job_id, run in of.items():
        row = rows[job_id]
        assert (run.start, run.end, run.user) == (row.start, row.end, "bob")
        assert (run.submit, run.time_limit) == (row.submit, row.time_limit)
    # squeue shows what it got; accounting shows its request, as squeue does while it waits
    assert (rows[jobs["whole node"]].processors, of[jobs["whole node"]].processors) == (4, 1)


def test_priorities(
    answers: Path, jobs: dict[str, int], rows: dict[int, QueueRow], terms: dict[int, Any]
) -> None:
    assert len(terms.keys() - rows.keys()) == 1  # a split task shows in sprio alone
    of = {name: terms[number] for name, number in jobs.items() if number in terms}
    assert of["plain"]["site"] == 1234
    by_hand = {name for name, each in of.items() if each["by_hand"]}
    assert by_hand == {"priority by hand", "two partitions by hand"}
    assert of["priority by hand"]["native"] == 5000
    # sprio of 22.05 prints no total for such a job, but a factor of its partition
    assert of["two partitions by hand"]["native"] == (1000 if answers.name == "22.05" else 77)
    unlisted = {"ended", "whole node", "running", "held", "begins later", "dependency"}
    assert jobs.keys() - of.keys() == unlisted
    assert of["two partitions"]["native"] > of["plain"]["native"]


def test_shares_and_capacity(answers: Path) -> None:
    tree = parse_shares(answers.joinpath("sshare.txt").read_text())
    assert tree.shares == pytest.approx({"biology": 0.3, "physics": 0.7})
    assert set(tree.usage) == {"biology", "physics"}
    capacity = parse_capacity(answers.joinpath("sinfo.txt").read_text())
    assert capacity == (8, 8, {"batch": 1, "short": 1, "open": 3})
    # the cluster has processors of nodes that are down, but jobs cannot use them
    text = "n1|3/1/0/4|batch|1\nn1|3/1/0/4|short|1\nn2|0/0/4/4|batch|1\n"
    assert parse_capacity(text)[:2] == (4, 8)


def test_refusals(answers: Path, jobs: dict[str, int]) -> None:
    def errors(name: str) -> list[str]:
        return answers.joinpath(name).read_text().partition("--- stderr\n")[2].splitlines()

    assert [_refusal(line) for line in errors("scontrol-unknown.txt")] == [
        (999999, "Invalid job id specified")
    ]
    assert [_refusal(line) for line in errors("scontrol-denied.txt")] == [
        (jobs["plain"], "Access/permission denied")
    ]


@pytest.mark.parametrize(("text", "count"), [("7", 7), ("2K", 2048), ("1.5K", 1536), ("4-8", 4)])
def test_counts(text: str, count: int) -> None:
    assert parse_count(text) == count


def test_the_line_of_sprio_that_is_not_understood_is_named() -> None:
    lines = [
        f"{job}|main|{'|'.join(['1'] * len(PRINTED_TERMS))}|{tres}"
        for job, tres in ((1, "cpu=1"), (2, "cpu=soon"), (3, ""))
    ]
    with pytest.raises(BatchSystemError, match=re.escape(lines[1])):
        parse_terms("\n".join(lines), {1})


def test_priority_that_is_all_rounding_is_not_by_hand() -> None:
    line = "1|batch|{total}|0|0|0|0|0|0|0|0|"
    assert not priorities(line.format(total=4))[1]["by_hand"]
    assert priorities(line.format(total=5))[1]["by_hand"]


def test_a_users_nice_is_no_priority_by_hand_though_the_site_weighs_nothing() -> None:
    terms = priorities("5|batch|1|0|100|0|0|0|0|0|0|")[5]
    assert not terms["by_hand"]
    assert terms["native"] == 1


@pytest.mark.parametrize("root", ["root|||100\n root|root|1|5\n", ""], ids=["shown", "hidden"])
def test_sub_accounts_divide_their_parents_share(root: str) -> None:
    tree = parse_shares(
        f"{root} physics||60|80\n  physics|alice|1|20\n"
        "  theory||3|60\n   theory|carol|1|60\n biology||40|20\n  biology|bob|parent|20\n"
        " empty||100|0\n"
    )
    # 60 : 40 of what has users; physics keeps 1 of 4 parts for its own user.
    assert tree.shares == pytest.approx({"physics": 0.15, "theory": 0.45, "biology": 0.4})
    assert tree.usage == {"physics": 20.0, "theory": 60.0, "biology": 20.0}


@pytest.mark.parametrize("line", ["physics", "  x|alice|1|0", "physics||1|much"])
def test_other_sshare_lines_are_named(line: str) -> None:
    with pytest.raises(BatchSystemError, match="sshare answered"):
        parse_shares(line)


@pytest.mark.parametrize("answer", ["1", "|mark|x", "no|mark|x\n", "words before\n1|mark|x\n"])
def test_an_answer_without_a_whole_record_is_refused(answer: str) -> None:
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_queue(answer, "mark")


SHARES_WITH_TIME_LEFT = (
    "root|||100|cpu=0,billing=0\n"
    " physics||60|100|cpu=100,mem=640,energy=0,billing=200,gres/gpu:a100=4\n"
    "  physics|alice|1|60|cpu=70,mem=640,energy=0,billing=140\n"
    "  physics|carol|1|40|cpu=30,billing=60\n"
    " biology||40|0|cpu=0,billing=0\n"
    "  biology|bob|1|0|cpu=0,billing=0\n"
)


@case_files.rows("slurm", "usage", "job physics")
def test_usage_counts_what_running_jobs_used_since_slurmctld_counted(
    job: list[float], physics: float
) -> None:
    processors, limit, start = job
    jobs = job_table(1, processors=[processors], time_limit=[limit])
    running = RunningJobs(jobs=jobs, start=np.array([start]))
    tree = parse_shares(SHARES_WITH_TIME_LEFT)
    assert tree.usage == {"physics": 100.0, "biology": 0.0}
    usage = usage_now(tree, ("physics", "biology", "guests"), running, 1000.0)
    assert usage.tolist() == pytest.approx([physics, 0.0, 0.0])


def test_settings_of_each_release(answers: Path) -> None:
    settings = parse_settings(answers.joinpath("config.txt").read_text(), "head").facts
    assert settings.release.startswith(answers.name)
    assert settings.points_an_hour == 1000 / 24
    assert settings.pass_interval == 1.0
    assert settings.harm is None
    assert (settings.controller_here, settings.in_charge) == (True, True)


def test_load_of_each_release(answers: Path) -> None:
    told = answers.joinpath("sdiag.txt").read_text()
    load = parse_load(told)
    assert load.struggles is None
    assert load.events[0] > load.events[1] > 0
    busy = re.sub(r"(Server thread count:\s+)\d+", rf"\g<1>{BUSY_THREADS + 1}", told)
    assert parse_load(busy).struggles is not None


def config(**lines: str) -> str:
    known = {
        "ClusterName": "trial",
        "SLURM_VERSION": "25.05.1",
        "PriorityType": "priority/multifactor",
        **lines,
    }
    return "\n".join(f"{key:<23} = {value}" for key, value in known.items())


@case_files.rows("slurm", "harms", "lines harm")
def test_where_writing_would_do_nothing_it_is_said(lines: dict[str, str], harm: str) -> None:
    found = parse_settings(config(**lines)).facts.harm
    assert found is None if not harm else harm in str(found)


@case_files.rows("slurm", "facts", "lines attribute value")
def test_what_settings_say(lines: dict[str, str], attribute: str, value: float) -> None:
    assert getattr(parse_settings(config(**lines)).facts, attribute) == value


@case_files.rows("slurm", "controllers", "controllers acts")
def test_next_to_controllers_only_the_one_in_charge_acts(controllers: list[str], acts: str) -> None:
    lines = (f"Slurmctld(backup{at}) at {each}" for at, each in enumerate(controllers))
    text = "\n".join([config(), *lines])
    expected = [None if not acts else host == acts for host in ("head1", "head2")]
    assert [parse_settings(text, host).facts.in_charge for host in ("head1", "head2")] == expected
    assert parse_settings(text, "login").facts.in_charge
    if acts:
        assert parse_settings(text, f"{acts}.site.org").facts.in_charge


@pytest.mark.parametrize("text", ["", "nothing = here"])
def test_settings_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(BatchSystemError, match="scontrol show config answered"):
        parse_settings(text)


def test_a_load_of_another_form_is_refused() -> None:
    with pytest.raises(BatchSystemError, match=r"sdiag answered.*Server thread count"):
        parse_load("Jobs submitted: 5")
