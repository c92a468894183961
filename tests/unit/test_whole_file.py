"""Files appear whole, under names that no user can guess, readable as their writer says."""

from __future__ import annotations

import os
import stat
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.whole_file import LONGEST_FILE, PRIVATE, read_whole, replacing, write_whole


@pytest.fixture(params=[0o022, 0o077, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_is_no_plain_file_or_too_long_is_not_read(tmp_path: Path) -> None:
    pipe, link, long = (tmp_path / name for name in ("pipe", "link", "long"))
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    long.touch()
    os.truncate(long, LONGEST_FILE + 1)
    for path in (pipe, link, long):
        with pytest.raises(OSError, match=r"plain file|too large"):
            read_whole(path)
    os.truncate(long, 3)
    assert read_whole(long) == bytes(3)


@pytest.mark.parametrize("size", [0, 1, 1024**2, 3 * 1024**2 + 7])
def test_a_file_is_read_whole_in_the_room_that_it_needs(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    tracemalloc.start()
    try:
        content = read_whole(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert content == path.read_bytes()
    assert most < 2 * size + 3 * 1024**2


def test_a_file_is_replaced_whole_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_whole(path, "old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])


def test_a_failure_leaves_what_was(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_whole(path, "old")
    with pytest.raises(FileNotFoundError), replacing(path):
        next(tmp_path.glob(".table.*")).unlink()
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_no_two_temporary_names_are_alike(tmp_path: Path) -> None:
    with replacing(tmp_path / "a"), replacing(tmp_path / "a"):
        one, other = (each.name for each in tmp_path.iterdir())
        assert str(os.getpid()) not in one + other


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    (tmp_path / "table").symlink_to(tmp_path / "other")
    write_whole(tmp_path / "table", "new")
    assert (tmp_path / "other").read_text() == "other"
    assert not (tmp_path / "table").is_symlink()


@pytest.mark.parametrize("mode", [0o666, PRIVATE, 0o600])
def test_permissions_are_the_writers_less_the_umask(tmp_path: Path, mode: int, umask: int) -> None:
    path = tmp_path / "table"
    path.touch()
    path.chmod(0o644)  # of before: they do not count
    write_whole(path, "new", mode=mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~umask
