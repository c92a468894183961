"""Rows as numbers: kept from look to look, and what they were if each look began anew."""

from __future__ import annotations

import gc
import math
import random

import numpy as np
import pytest
from tests.unit.batch_systems.test_slurm_watch import waiting_row

from slurm_rl_plugin.batch_systems.command_process import collector_paused
from slurm_rl_plugin.batch_systems.numbered_names import Names
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.queue import job_tables
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import RowNumbers, numbers_of
from slurm_rl_plugin.domain.job_class import JobClassifier, JobDescription
from tests.fakes.fake_cluster import OF_A_MINUTE


def drawn_row(number: int, rng: random.Random) -> QueueRow:
    return waiting_row(number, number)._replace(
        account=rng.choice(["a", "b", ""]),
        user=rng.choice(["u", "v", ""]),
        qos=rng.choice(["normal", "high"]),
        partitions=rng.choice([("p",), ("p", "q"), ("q",)]),
        reason=rng.choice(["Priority", "JobHeldUser", "Dependency", "QOSGrpCpuLimit"]),
        time_limit=rng.choice([60.0, 3600.0, math.nan]),
        priority=rng.choice([0, 1, 500]),
    )


def numbers() -> RowNumbers:
    return RowNumbers(OF_A_MINUTE, lambda row: row.qos == "high")


@pytest.mark.parametrize("seed", range(5))
def test_kept_lines_are_those_of_a_first_look(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_tables, "GONE_AT_LEAST", 3)
    rng = random.Random(seed)
    kept, rows = numbers(), [drawn_row(number, rng) for number in range(40)]
    for look in range(8):
        rows = [row for row in rows if rng.random() < 0.8]
        points = [row.priority if rng.random() < 0.3 else rng.choice([0, 7, 9]) for row in rows]
        rows = [row._replace(priority=point) for row, point in zip(rows, points, strict=True)]
        rows += [drawn_row(100 * look + 50 + each, rng) for each in range(rng.randrange(9))]
        rng.shuffle(rows)
        kept.forget_others(rows)
        found, new = kept.of(rows), numbers()
        expected = new.of(rows)
        for name in expected.dtype.names or ():
            if name in ("account", "user", "qos"):
                words, others = list(kept.words), list(new.words)
                assert [words[code] for code in found[name]] == [
                    others[code] for code in expected[name]
                ]
            elif name == "partitions":
                lists = list(kept.partition_lists)
                assert [lists[code] for code in found[name]] == [row.partitions for row in rows]
            else:
                np.testing.assert_array_equal(found[name], expected[name])
        assert len(kept._rows) <= len(rows) + max(3, len(rows) // 10)


def test_a_row_with_other_points_has_the_line_of_the_one_before() -> None:
    asked: list[JobDescription] = []

    class Asked(JobClassifier):
        def matching_rule(self, job: JobDescription) -> None:
            asked.append(job)

    kept = RowNumbers(Asked(()))
    rows = [waiting_row(number, number)._replace(priority=5) for number in (1, 2, 3)]
    kept.of(rows)
    later = [row._replace(priority=6) for row in rows[:2]] + [rows[2]._replace(priority=0)]
    assert kept.of(later)["held"].tolist() == [False, False, True]
    assert len(asked) == 4  # who is held now is another one
    both = [later[0], rows[0], later[0]._replace(priority=8)]
    assert kept.of(both)["job_id"].tolist() == [1, 1, 1]
    assert kept.of(rows)["job_id"].tolist() == [1, 2, 3]


def test_a_row_tells_its_class_and_what_it_waits_for() -> None:
    row = waiting_row(1, 1)._replace(reason="QOSGrpCpuLimit", qos="high", time_limit=60.0)
    (line,) = numbers().of([row])
    assert (line["interactive"], line["own_doing"], line["for_processors"]) == (True, False, True)


def test_names_are_numbered_in_the_order_of_the_rows() -> None:
    names = Names(["known"])
    found = numbers_of(names, np.array([2, 0, 2, 1]), ["x", "known", "y", "never met"])
    assert names.all == ("known", "y", "x")
    assert found.tolist() == [1, 2, 1, 0]


def test_the_collector_goes_on_after_a_pause_and_stays_off_where_it_was() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="within"):
        _failing()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@collector_paused()
def _failing() -> None:
    raise ValueError("within")
