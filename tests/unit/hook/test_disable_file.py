from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import DisableFileError
from slurm_rl_plugin.hook.memory.disable_file import (
    Disablement,
    DisableWatch,
    read_disable_file,
    remove_disable_file,
    write_disable_file,
)

AT, UNTIL = 1_800_000_000.0, 1_800_007_200.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "DISABLE"


def test_without_a_file_nothing_is_disabled(path: Path) -> None:
    assert read_disable_file(path) is None
    assert read_disable_file(path / "below" / "a") is None


def test_what_is_written_is_read_back(path: Path) -> None:
    made = Disablement(by="alice as root", at=AT, until=UNTIL, reason="Slurm\nupgrade:  now")
    write_disable_file(path, made)
    found = read_disable_file(path)
    assert found == Disablement(by="alice as root", at=AT, until=UNTIL, reason="Slurm upgrade: now")
    assert found.counts(UNTIL - 1)
    assert not found.counts(UNTIL)
    assert found.words.startswith("by alice as root since 2027-")


@pytest.mark.parametrize(
    "reason", ["deploy \U0001f469\u200d\U0001f4bb", "St\udcf6rung", "w" * 20_000]
)
def test_a_pause_ends_whatever_its_reason_is_written_in(path: Path, reason: str) -> None:
    write_disable_file(path, Disablement(by="root", at=AT, until=UNTIL, reason=reason))
    found = read_disable_file(path)
    assert found is not None
    assert (found.until, found.reason[:1]) == (UNTIL, reason[:1])


def test_the_daemon_can_read_it_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_disable_file(path, Disablement(by="root", at=AT))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"maintenance until tomorrow\n",
        b"until: tomorrow\n",
        b"until: 2020-01-01T00:00:00\n",  # of no zone
        b"until: 2020-01-01T00:00:00+00:00\nuntil: 2020-01-02T00:00:00+00:00\n",
        b"until: 2020-01-01T00:00:00+00:00\nplease: wait\n",
        b"at: 2020-01-02T00:00:00+00:00\nuntil: 2020-01-01T00:00:00+00:00\n",
        b"until: 9999999-01-01T00:00:00+00:00\n",
        b"by: \x1b[2Jroot\nuntil: 2020-01-01T00:00:00+00:00\n",
        b"\xff\xfe",
        b"until: 2020-01-01T00:00:00+00:00\nreason: " + b"x" * 20_000,
    ],
)
def test_an_empty_or_odd_file_disables_without_end(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    found = read_disable_file(path)
    assert found is not None
    assert math.isinf(found.until)
    assert found.counts(1e12)
    assert bool(found.fault) == bool(content)
    assert "without end" in found.words


def test_what_is_no_plain_file_disables_and_is_not_waited_for(path: Path) -> None:
    path.mkdir()
    assert read_disable_file(path).counts(1e12)  # type: ignore[union-attr]
    path.rmdir()
    os.mkfifo(path)
    assert read_disable_file(path).counts(1e12)  # type: ignore[union-attr]


def test_a_file_that_may_not_be_read_disables(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*words: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    found = read_disable_file(path)
    assert found is not None
    assert "Permission denied" in found.words
    assert found.counts(1e12)


def test_faults_of_the_folder_are_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "DISABLE"
    with pytest.raises(DisableFileError, match="cannot be made"):
        write_disable_file(missing, Disablement())
    (tmp_path / "file").touch()
    with pytest.raises(DisableFileError, match="cannot be removed"):
        remove_disable_file(tmp_path / "file" / "DISABLE")
    remove_disable_file(tmp_path / "DISABLE")


class TestWatch:
    @pytest.fixture
    def watch(self, path: Path) -> DisableWatch:
        write_disable_file(path, Disablement(by="root", at=AT, until=UNTIL))
        return DisableWatch()

    def test_a_clock_set_back_makes_it_longer_and_starts_none_that_is_over(
        self, watch: DisableWatch, path: Path
    ) -> None:
        assert watch.standing(path, AT, 0.0)
        assert watch.standing(path, AT - 3600, 7300.0)
        assert watch.standing(path, UNTIL, 10_900.0) is None
        assert watch.standing(path, AT, 11_000.0) is None

    def test_a_new_pause_counts_anew(self, watch: DisableWatch, path: Path) -> None:
        assert watch.standing(path, UNTIL, 0.0) is None
        write_disable_file(path, Disablement(by="root", at=UNTIL, until=UNTIL + 60))
        assert watch.standing(path, UNTIL + 1, 1.0)
        assert watch.standing(path, UNTIL + 60, 60.0) is None
        remove_disable_file(path)
        assert watch.standing(path, UNTIL, 61.0) is None
