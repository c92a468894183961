"""On a real Slurm of 8 slots a training, or a what-if, ends as it does on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.fakes.ctrl_c import ctrl_c_is_heard
from tests.functional.small_site import write_small_site
from tests.real.conftest import running_slurm, skip_without_daemons
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

TOP = Path(__file__).parents[2]
SMALL = ["mmn:jobs=300", "--steps", "2", "--hidden", "2", "--runs", "1", "-o", "m.onnx"]
SEEDS = [*SMALL, "--seeds", "2"]
FILES = ["m.json", "m.md", "m.onnx"]
COST = re.compile(
    r"(\d+) workers in (\d+) job arrays: overhead per worker (\S+) s \(Python and imports (\S+) s, "
    r"compiled code (\S+) s\).* (\d+) lost"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateSlurm]:
    skip_without_daemons()
    with running_slurm(ClusterPlan(nodes=1, processors_per_node=8)) as slurm:
        yield slurm


def local_files(folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["train", *words]) == 0
    return contents(folder)


def contents(folder: Path) -> list[bytes]:
    assert sorted(each.name for each in folder.iterdir()) == FILES  # and nothing of the workers
    return [(folder / name).read_bytes() for name in FILES]


@contextlib.contextmanager
def training(
    slurm: PrivateSlurm, folder: Path, words: list[str]
) -> Iterator[subprocess.Popen[str]]:
    """`slurm-rl train --on slurm` as a process of its own, in the folder."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_rl_plugin.cli.entry", "train", *words, "--on", "slurm"],
        cwd=folder,
        env={**slurm.env, "PYTHONPATH": str(TOP)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


def first_running(slurm: PrivateSlurm, process: subprocess.Popen[str]) -> str:
    """The first worker that runs a step; srun has started its Python by then."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        steps = slurm.run("squeue", "-h", "-s", "-t", "R", "-o", "%i").stdout.split()
        workers = [each for each in steps if each.endswith(".0")]
        if workers:
            return workers[0].partition(".")[0]
        time.sleep(0.1)
    raise AssertionError("no worker ran")


def test_candidates_in_arrays_and_a_killed_worker_give_the_local_result(
    cluster: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = local_files(tmp_path / "here", SMALL, monkeypatch)
    with training(cluster, tmp_path / "there", SMALL) as process:
        worker = first_running(cluster, process)
        cluster.run("scancel", "--signal=KILL", worker)
        out = finished(process)
    assert contents(tmp_path / "there") == expected
    found = COST.search(out)
    assert found is not None, out
    workers, arrays, overhead, *_, lost = map(float, found.groups())
    assert lost == 1
    assert workers >= 8 + 1  # every slot in the first generation, one at least in the second
    assert arrays == 2
    assert overhead > 0
    assert cluster.run("squeue", "-h").stdout == ""


def test_whole_trainings_in_an_array_and_kill_9_give_the_local_result(
    cluster: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = local_files(tmp_path / "here", SEEDS, monkeypatch)
    with training(cluster, tmp_path / "there", SEEDS) as process:
        kill_python_of(first_running(cluster, process))
        out = finished(process)
    assert contents(tmp_path / "there") == expected
    assert re.search(r"2 workers in 1 job arrays: .* 1 lost", out), out
    assert cluster.run("squeue", "-h").stdout == ""


def test_an_interruption_leaves_no_job(cluster: PrivateSlurm, tmp_path: Path) -> None:
    with ctrl_c_is_heard(), training(cluster, tmp_path / "there", SEEDS) as process:
        first_running(cluster, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (1, "slurm-rl train: interrupted.\n")
    cluster.wait_until(lambda: cluster.run("squeue", "-h").stdout == "", 60, "its jobs gone")
    assert (tmp_path / "there" / "m.onnx.workers").is_dir()  # the same command goes on from here


def kill_python_of(worker: str) -> None:
    """SIGKILL for the processes of a worker that run submitit, told by their environment."""
    array, _, task = worker.partition("_")
    wanted = {f"SLURM_ARRAY_JOB_ID={array}".encode(), f"SLURM_ARRAY_TASK_ID={task}".encode()}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                around = set((process / "environ").read_bytes().split(b"\0"))
                is_python = (
                    words[0] == sys.executable.encode() and b"submitit.core._submit" in words
                )
                if is_python and wanted <= around:
                    os.kill(int(process.name), signal.SIGKILL)
                    return
        time.sleep(0.05)
    raise AssertionError(f"worker {worker} has no process")


def test_variants_of_what_if_in_an_array_give_the_local_answer(
    cluster: PrivateSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_site(tmp_path)
    words = ["what-if", "week.events", "--cluster", "slurm.conf", "--json"]
    words += ["--change", "hook default", "--change", "node n[2-3] State=DOWN"]
    assert main(words) == 0
    here = json.loads(capsys.readouterr().out)
    process = subprocess.run(
        [sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words, "--on", "slurm"],
        env={**cluster.env, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    there = json.loads(process.stdout)
    assert there.pop("workers")["workers"] == 3
    assert there == here
    assert not (tmp_path / "what-if.workers").exists()
