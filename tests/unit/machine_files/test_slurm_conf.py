"""Files that slurm.conf includes, and what is wrong with files of Slurm."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.whole_file import LONGEST_FILE
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines


def test_a_file_of_windows_with_a_mark_at_its_head(tmp_path: Path) -> None:
    tmp_path.joinpath("slurm.conf").write_bytes(
        b"\xef\xbb\xbfClusterName=site\r\n" + f"{NODES}\r\n{PARTITION}\r\n".encode()
    )
    assert read_machine(tmp_path / "slurm.conf").nodes == 4


@pytest.mark.parametrize(
    ("named", "copy"),
    [
        ("{away}/nodes.conf", "nodes.conf"),
        ("{away}/conf.d/nodes.conf", "conf.d/nodes.conf"),
        ("conf.d/nodes.conf", "nodes.conf"),
        ("{away}/nodes-%c.conf", "nodes-site.conf"),
    ],
)
@pytest.mark.parametrize("by", ["slurm.conf", "an included file", "gres.conf"])
def test_included_files_copied_to_another_host(
    tmp_path: Path, named: str, copy: str, by: str
) -> None:
    """The copy in the folder of slurm.conf is read, and a sentence says so."""
    away, here = tmp_path / "away", tmp_path / "here"
    file = here / copy
    file.parent.mkdir(parents=True)
    line = f"Include {named.format(away=away)}"
    gres = "Name=gpu Type=a100 Count=2\n"
    file.write_text(gres if by == "gres.conf" else "NodeName=n1 RealMemory=5 Gres=gpu:2\n")
    written = {"slurm.conf": line, "gres.conf": "", "more.conf": line}
    if by == "an included file":
        written["slurm.conf"] = "Include more.conf"
    elif by == "gres.conf":
        written |= {"slurm.conf": "NodeName=n1 RealMemory=5 Gres=gpu:2", "gres.conf": line}
    head = "ClusterName=Site\n"
    for name, text in written.items():
        here.joinpath(name).write_text(f"{head if name == 'slurm.conf' else ''}{text}\n")
    here.joinpath("slurm.conf").open("a").write(PARTITION + "\n")
    machine = read_machine(here)
    assert machine.kinds[0].resources[:2] == (1.0, 5.0)
    assert ("gres/gpu:a100" in machine.resources) is (by == "gres.conf")
    (note,) = machine.left_out
    assert f"Include {named.format(away=away)}: " in note
    assert note.endswith(f"is not on this host; {file} is read instead.")


def test_an_absolute_path_goes_before_a_copy(tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"
    for folder, cpus in ((away, 2), (here, 4)):
        folder.mkdir()
        folder.joinpath("nodes.conf").write_text(f"NodeName=n1 RealMemory=5 CPUs={cpus}\n")
    machine = machine_of_lines(here, f"Include {away}/nodes.conf", PARTITION)
    assert machine.kinds[0].resources[0] == 2.0
    (note,) = machine.left_out
    assert note.endswith(f"{away}/nodes.conf is read; {here}/nodes.conf has no effect.")
    own = machine_of_lines(here, f"Include {here}/nodes.conf", PARTITION)
    assert own.kinds[0].resources[0] == 4.0
    assert own.left_out == ()


def test_a_pipe_or_an_endless_file_is_waited_for_by_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.conf")
    tmp_path.joinpath("long.conf").write_text("\n" * (LONGEST_FILE + 1))
    for path in (tmp_path / "pipe.conf", Path("/dev/zero")):
        with pytest.raises(ConfigurationError, match="not a plain file"):
            read_machine(path)
    with pytest.raises(ConfigurationError, match="File too large"):
        read_machine(tmp_path / "long.conf")


def test_continued_lines_are_read_in_linear_time(tmp_path: Path) -> None:
    began = time.monotonic()
    lines = ["NodeName=n1 \\"] * 300_000
    with pytest.raises(ConfigurationError, match="no PartitionName"):
        machine_of_lines(tmp_path, *lines)
    assert time.monotonic() - began < 20.0  # hours, were each pair to copy the line


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_machine(tmp_path)
    tmp_path.joinpath("slurm.conf").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ConfigurationError, match="is no text"):
        read_machine(tmp_path)
