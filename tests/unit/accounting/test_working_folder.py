"""A folder beside the output: gone after each run, and after a kill gone with the next one."""

import os
import socket
import subprocess
import sys

import pytest

from slurm_rl_plugin.accounting.conversion import working_folder

HOLDS_IT = """
import sys
from pathlib import Path
from slurm_rl_plugin.accounting.conversion import working_folder
with working_folder(Path(sys.argv[1])) as folder:
    (folder / "run").write_text("jobs")
    print(folder, flush=True)
    sys.stdin.read()
"""


def left_in(folder):
    return sorted(each.name for each in folder.iterdir())


def test_it_goes_with_its_files_whatever_ends_the_block(tmp_path):
    with working_folder(tmp_path / "log.parquet") as folder:
        (folder / "run").write_text("jobs")
        assert folder.parent == tmp_path
        assert folder.name.startswith(".log.parquet.")
    with pytest.raises(KeyError), working_folder(tmp_path / "log.parquet"):
        raise KeyError
    assert left_in(tmp_path) == []


def test_it_stays_as_long_as_its_process_lives(tmp_path):
    output = tmp_path / "log.parquet"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_IT, str(output)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            name = child.stdout.readline().strip().rpartition("/")[2]
            with working_folder(output), working_folder(output):
                assert len(left_in(tmp_path)) == 3
            assert left_in(tmp_path) == [name]
            with working_folder(tmp_path / "other.parquet"):
                assert name in left_in(tmp_path)
        finally:
            child.kill()
    with working_folder(tmp_path / "other.parquet"):
        assert name in left_in(tmp_path)
    with working_folder(output):
        assert name not in left_in(tmp_path)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "owner", [None, "", "another-host", f"{socket.gethostname()}, or so", "\udcff"], ids=repr
)
def test_what_may_be_of_a_living_process_stays(tmp_path, owner):
    left = tmp_path / ".log.parquet.abcd1234.work"
    left.mkdir()
    (left / "run").write_text("jobs")
    if owner is not None:
        (left / "owner").write_text(owner, errors="surrogateescape")
    before = left_in(left)
    with working_folder(tmp_path / "log.parquet"):
        pass
    assert left_in(left) == before


def test_what_is_not_plainly_ours_stays(tmp_path, monkeypatch):
    """Other names, a folder that holds another, a link, and a folder of another user."""
    for name in (".log.parquet.work", ".log.parquet.backup-of-may.work", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / ".log.parquet.abcd1234.work" / "within").mkdir(parents=True)
    for folder in list(tmp_path.iterdir()):
        for name in ("before", "after"):
            (folder / name).write_text("mine")
        (folder / "owner").write_text(socket.gethostname())
    (tmp_path / ".log.parquet.abcd5678.work").symlink_to("elsewhere")
    before = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")}
    with working_folder(tmp_path / "log.parquet"):
        pass
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")} == before
    left = tmp_path / ".log.parquet.abcd9012.work"
    left.mkdir()
    (left / "owner").write_text(socket.gethostname())
    user = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: user + 1)
        with working_folder(tmp_path / "log.parquet"):
            pass
    assert left_in(left) == ["owner"]
    with working_folder(tmp_path / "log.parquet"):
        assert not left.exists()
