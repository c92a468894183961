"""The list of what may be outstanding: every entry is restored, whatever becomes of another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.outstanding import outstanding_at, restore_all

NOWHERE = cast(BatchSystem, None)


@dataclass
class Entry:
    name: str
    answer: ApplyReport | Exception
    path: Path | None = None
    words: str = "something is outstanding"
    asked: int = 0

    def is_outstanding(self) -> bool:
        return True

    def restore(self, system: BatchSystem) -> ApplyReport:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_reports_are_joined_and_a_job_counts_once() -> None:
    entries = [
        Entry("a", ApplyReport(accepted=frozenset({1, 2}), rejected={3: "no"})),
        Entry("b", ApplyReport(accepted=frozenset({2}), later=frozenset({3}))),
    ]
    report = restore_all(entries, NOWHERE)
    assert (report.applied, report.rejected, report.later) == (2, {3: "no"}, frozenset({3}))


def test_a_job_that_a_later_report_accepts_is_left_no_more() -> None:
    first = ApplyReport(rejected={3: "held"}, later=frozenset({3}))
    report = first | ApplyReport(accepted=frozenset({3}))
    assert (report.rejected, report.later) == ({}, frozenset())


def test_a_failure_keeps_no_other_entry_and_the_first_one_is_raised() -> None:
    entries = [
        Entry("a", ChangeRejected("no right")),
        Entry("b", BatchSystemUnavailable("no answer")),
        Entry("c", ApplyReport()),
    ]
    with pytest.raises(ChangeRejected, match="no right"):
        restore_all(entries, NOWHERE)
    assert [entry.asked for entry in entries] == [1, 1, 1]


def test_nothing_is_outstanding_without_files(tmp_path: Path) -> None:
    entries = outstanding_at(tmp_path / "state.json")
    assert [entry.name for entry in entries] == ["batch_limit", "factors"]
    assert not any(entry.is_outstanding() for entry in entries)


def test_a_state_file_that_cannot_be_trusted_counts_as_factors(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("not JSON")
    _, factors = outstanding_at(tmp_path / "state.json")
    assert factors.is_outstanding()
    assert "cannot be trusted" in factors.words
