"""logrotate moves the audit log of a running daemon: no line is lost or torn."""

from __future__ import annotations

import getpass
import grp
import gzip
import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.hook.audit.log import AuditLog, DecidedOrder
from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import tool

SHIPPED = TOP / "deploy" / "logrotate.d" / "slurm-rl"
ROTATIONS = 6


@pytest.fixture
def rotation(tmp_path: Path) -> Path:
    """The shipped file for an audit log of this test's own."""
    log = tmp_path / "log"
    log.mkdir(mode=0o755)
    owner = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    text = SHIPPED.read_text().replace("/var/log/slurm-rl", str(log))
    path = tmp_path / "logrotate.conf"
    path.write_text(text.replace("slurmrl slurmrl", owner))
    path.chmod(0o644)
    return path


def rotate(rotation: Path, *words: str) -> str:
    state = rotation.with_name("state")
    done = subprocess.run(
        [tool("logrotate"), *words, f"--state={state}", str(rotation)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def order(number: int) -> DecidedOrder:
    return DecidedOrder(
        time=float(number),
        mode="shadow",
        policy="sjf",
        model_sha256="",
        reason="policy",
        job_ids=list(range(300)),
        scores=np.zeros(300),
        native_priority=np.arange(300),
        tier=np.zeros(300, dtype=np.int64),
        interactive=np.zeros(300, dtype=bool),
        account=np.zeros(300, dtype=np.int64),
        accounts=["physics"],
    )


def test_the_file_is_understood(rotation: Path) -> None:
    (rotation.parent / "log" / "audit.jsonl").write_text("{}\n")
    assert "error" not in rotate(rotation, "--debug").lower()


def test_no_cycle_is_lost_while_files_are_moved(rotation: Path) -> None:
    path = rotation.parent / "log" / "audit.jsonl"
    audit, stop, written = AuditLog(path), threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            audit.record(order(len(written)), (), "would_write")
            written.append(len(written))

    daemon = threading.Thread(target=work)
    daemon.start()
    try:
        for _ in range(ROTATIONS):
            before = len(written)
            while len(written) == before:  # something to move
                assert daemon.is_alive()
                stop.wait(0.001)
            rotate(rotation, "--force")
    finally:
        stop.set()
        daemon.join()
    assert len(list(path.parent.iterdir())) > ROTATIONS
    lines = []
    for file in path.parent.iterdir():
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt") as text:
            lines += [json.loads(line) for line in text]
    assert sorted(line["time"] for line in lines) == written
    assert all(len(line["order"]) == 300 for line in lines)
