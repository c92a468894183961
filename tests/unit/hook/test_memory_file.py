"""What a model remembers survives the daemon, and never stops it."""

import numpy as np
import pytest

from slurm_rl_plugin.hook.memory_file import MemoryFile


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


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "3", '{"model": "abc"}', '{"model": "abc", "memory": ["x"]}',
     '{"model": "abc", "memory": [NaN]}', '{"model": "abc", "memory": [[1], [1, 2]]}'],
)  # fmt: skip
def test_a_broken_file_is_no_memory(memory_file, content):
    memory_file.path.write_text(content)
    assert memory_file.read() is None


def test_no_file_is_no_memory_and_no_folder_no_fault(tmp_path, caplog):
    lost = MemoryFile(path=tmp_path / "none" / "memory", model_sha256="abc")
    assert lost.read() is None
    lost.write(np.ones(2))
    assert "memory=unwritable" in caplog.text
