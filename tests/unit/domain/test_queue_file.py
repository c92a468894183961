"""A look at the queue survives its file, and a file of anything else is refused in a sentence."""

from __future__ import annotations

import io
import zipfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue, write_queue
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.errors import QueueFileError
from tests.unit.hook.queues import pending_jobs, snapshot_of


def queue() -> QueueOnFile:
    pending = pending_jobs([3, 2, 1], tasks=[1, 5, 1], expected=[np.nan, 5.0, 7.0])
    asked = ResourceRequests.of_totals(np.ones((3, 3)), nodes=np.ones(3, dtype=np.int64))
    pending = replace(pending, jobs=replace(pending.jobs, requests=asked))
    snapshot = replace(
        snapshot_of(pending),
        users=("ann",),
        resources=ResourcesNow(names=BASIC_RESOURCES, capacity=np.ones(3), free=np.zeros(3)),
    )
    return QueueOnFile(snapshot=snapshot, mode="shadow", policy="default")


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if is_dataclass(one):
        for each in fields(one):
            assert_same(getattr(one, each.name), getattr(other, each.name))
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    else:
        assert one == other


def test_a_look_comes_back_as_it_was(tmp_path: Path) -> None:
    written = queue()
    write_queue(tmp_path / "queue.npz", written)
    assert_same(read_queue(tmp_path / "queue.npz"), written)


def test_only_owner_and_group_read_it(tmp_path: Path) -> None:
    write_queue(tmp_path / "queue.npz", queue())
    assert (tmp_path / "queue.npz").stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"text"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "queue.npz").write_bytes(content)
    with pytest.raises(QueueFileError, match=r"holds no look of this release's daemon"):
        read_queue(tmp_path / "queue.npz")


@pytest.mark.parametrize("flags", [0x01, 0x20, 0x40], ids=["secret", "patched", "strong"])
def test_an_archive_that_we_never_make_is_refused(tmp_path: Path, flags: int) -> None:
    path = tmp_path / "queue.npz"
    write_queue(path, queue())
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 8  # flags of the first entry in the archive's list
    content[place : place + 2] = flags.to_bytes(2, "little")
    path.write_bytes(content)
    with pytest.raises(QueueFileError, match=r"holds no look of this release's daemon"):
        read_queue(path)


def test_a_head_that_asks_for_more_than_there_is_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.npz"
    np.savez(path, form=np.array("slurm-rl queue 1"))
    column = io.BytesIO()
    head = {"descr": "<f8", "fortran_order": False, "shape": (10**14,)}
    np.lib.format.write_array_header_1_0(column, head)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("snapshot.shares.npy", column.getvalue())
    with pytest.raises(QueueFileError, match=r"holds no look of this release's daemon"):
        read_queue(path)


def test_columns_of_different_lengths_are_refused(tmp_path: Path) -> None:
    broken = queue()
    short = replace(broken.snapshot.pending, held=np.zeros(2, dtype=np.bool_))
    write_queue(
        tmp_path / "queue.npz",
        replace(broken, snapshot=replace(broken.snapshot, pending=short)),
    )
    with pytest.raises(QueueFileError, match="columns of different lengths"):
        read_queue(tmp_path / "queue.npz")


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(QueueFileError, match="cannot be read"):
        read_queue(tmp_path / "queue.npz")
