"""What a model remembers survives the daemon, and never stops it."""

import numpy as np
import pytest

from slurm_rl_plugin.hook.memory.records import MemoryFile


@pytest.fixture
def memory_file(tmp_path):
    return MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")


def test_what_is_written_is_read_back_exactly(memory_file):
    memory = np.array([1.7e9 + 1 / 3, 0.1, 1e-300, -2.5])
    memory_file.write(memory)
    assert memory_file.read().tolist() == memory.tolist()


def test_another_model_has_no_part_in_it(memory_file):
    memory_file.write(np.ones(3))
    assert MemoryFile(path=memory_file.path, model_sha256="other").read() is None


NAN = np.array([np.nan]).tobytes()
HEAD = b"slurm-rl memory 1 abc "


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"3", b'{"model": "abc", "memory": [1.0]}', b"\xff\xfe\n" + bytes(8), HEAD,
     HEAD + b"1\n", HEAD + b"1\n" + bytes(7), HEAD + b"1\n" + bytes(16), HEAD + b"x\n" + bytes(8),
     HEAD + b"1\n" + NAN, HEAD.replace(b"1", b"2") + b"1\n" + bytes(8), b"abc 1\n" + bytes(8)],
)  # fmt: skip
def test_a_broken_or_foreign_file_is_no_memory(memory_file, content, caplog):
    memory_file.path.write_bytes(content)
    assert memory_file.read() is None
    assert caplog.text.count("memory=unreadable") == 1


def test_half_a_file_is_no_memory(memory_file):
    memory_file.write(np.ones(1000))
    content = memory_file.path.read_bytes()
    for length in range(0, len(content), 97):
        memory_file.path.write_bytes(content[:length])
        assert memory_file.read() is None


def test_a_memory_of_many_rows_is_read_back_exactly(memory_file):
    memory = np.random.default_rng(1).normal(size=(100_000, 13)).ravel()
    memory_file.write(memory)
    assert memory_file.read().tobytes() == memory.tobytes()
    assert [each.name for each in memory_file.path.parent.iterdir()] == [memory_file.path.name]


def test_a_memory_of_nothing_is_a_memory(memory_file):
    memory_file.write(np.empty(0))
    assert len(memory_file.read()) == 0


def test_no_file_is_no_memory_and_no_folder_no_fault(tmp_path, caplog):
    lost = MemoryFile(path=tmp_path / "none" / "memory", model_sha256="abc")
    assert lost.read() is None
    lost.write(np.ones(2))
    assert "memory=unwritable" in caplog.text
