"""SIGHUP: file, conf.d and environment are read again as at the start; all is taken or nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.hook.experiment.files import RUNNING, ExperimentFiles, ExperimentStanding
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster


class RunningDaemon:
    """`slurm-rl run` on a fake Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "conf.d").mkdir()
        self.write("fifo")
        self.log_path = folder / "daemon.log"
        fake = FakeCluster(folder)
        now = int(time.time())  # noqa: TID251 - the daemon's clock
        for job in range(1, 6):
            when = now - 100 + job
            fake.add(job, submit=when, eligible=when, time_limit=f"{60 - job}:00")
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "slurm_rl_plugin.cli.entry", "run"),
                    *(
                        "--config",
                        "site.toml",
                        "--set",
                        "hook.cycle=600",
                        "--set",
                        "hook.mode=active",
                    ),
                ],
                cwd=folder,
                env={
                    **fake.env,
                    "PYTHONPATH": os.pathsep.join([str(folder / "libraries"), str(TOP)]),
                    "SLURM_RL_METRICS_PORT": "0",
                },
                stderr=log,
            )

    def write(self, model: str, further: str = "") -> None:
        (self.folder / "site.toml").write_text(
            f'[hook]\nstate_file = "{self.folder}/state.json"\naudit_file = ""\n'
            f'disable_file = "{self.folder}/DISABLE"\n[policy]\nmodel = "{model}"\n{further}'
        )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        end = time.monotonic() + 60
        while self.log.count(text) < times:
            assert time.monotonic() < end, f"no {text!r}:\n{self.log}"
            assert self.process.poll() is None, self.log
            time.sleep(0.05)

    def reload(self, answer: str, times: int = 1) -> None:
        """SIGHUP, and wait until the log holds the answer so many times."""
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(answer, times)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path)
    try:
        daemon.wait_for("cycle=done")
        yield daemon
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(timeout=60) == 0, daemon.log
    finally:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.wait(timeout=10)


def test_a_reload_reads_all_sources_as_the_start_does(daemon: RunningDaemon) -> None:
    (daemon.folder / "conf.d" / "model.toml").write_text('[policy]\nmodel = "sjf"\n')
    daemon.reload("reload=done policy=sjf")
    daemon.wait_for("policy=sjf pending")
    # the variable and the flag of the start go over what the file says now
    daemon.write("fifo", "[metrics]\nport = 70\n")
    (daemon.folder / "conf.d" / "model.toml").unlink()
    daemon.reload("reload=done policy=fifo")
    daemon.wait_for("cycle=done mode=active policy=fifo", times=2)
    assert "needs a restart" not in daemon.log


def test_a_faulty_reload_names_each_fault_and_changes_nothing(daemon: RunningDaemon) -> None:
    daemon.write("sjf")
    path = daemon.folder / "conf.d" / "a.toml"
    path.write_text("[hook]\nmode = 'on'\n[metrics]\nport = -1\n")
    daemon.reload("reload=refused")
    assert "conf.d/a.toml:2: [hook] mode is 'on', give one of shadow, active." in daemon.log
    assert "conf.d/a.toml:4: [metrics] port is -1" in daemon.log
    path.unlink()
    daemon.write("missing.onnx")
    daemon.reload("reload=refused", times=2)
    daemon.wait_for("cycle=done", times=3)
    assert "policy=sjf" not in daemon.log


def test_a_refused_model_is_tried_again_at_once(daemon: RunningDaemon) -> None:
    """What refused it is not always in the file: here a library was missing."""
    library = daemon.folder / "libraries" / "onnxruntime"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("raise ImportError('no such library')\n")
    model = shutil.copy(TOP / "policy_models" / "default.onnx", daemon.folder / "site.onnx")
    daemon.write(str(model))
    daemon.reload("reload=refused")
    assert "no such library" in daemon.log
    shutil.rmtree(library)
    daemon.reload("reload=done policy=site")


def test_keys_of_the_start_are_named_in_one_line_and_kept(daemon: RunningDaemon) -> None:
    (daemon.folder / "conf.d" / "a.toml").write_text(
        f'[hook]\nstate_file = "{daemon.folder}/other.json"\n[metrics]\nmax_accounts = 7\n'
    )
    daemon.write("sjf")
    daemon.reload("reload=incomplete")
    (line,) = [line for line in daemon.log.splitlines() if "reload=incomplete" in line]
    assert line.endswith(
        "reload=incomplete: a change of [hook] state_file, [metrics] max_accounts needs a restart"
    )
    daemon.wait_for("policy=sjf pending")
    assert json.loads((daemon.folder / "state.json").read_text())  # the new order is written there
    assert not (daemon.folder / "other.json").exists()


def test_a_candidate_of_an_experiment_has_its_turn(daemon: RunningDaemon) -> None:
    now = time.time() + 2.0  # noqa: TID251 - the daemon's clock
    blocks = tuple(
        TurnBlock(begin=now + 8.0 * place, end=now + 8.0 * (place + 1), arm=arm, pair=0)
        for place, arm in enumerate((OURS, SITE))
    )
    ExperimentFiles(state_file=daemon.folder / "state.json").declare(
        Declaration(
            goal="wait",
            harm=1.0,
            longest_wait=math.inf,
            policy="sjf",
            model_sha256="",
            seed=1,
            day=48.0,
            blocks=blocks,
            candidate="sjf",
            champion="fifo",
        ),
        ExperimentStanding(state=RUNNING, reason="", at=now),
    )
    daemon.wait_for("cycle=done mode=active policy=sjf")
    before = daemon.log.count("cycle=done mode=active policy=fifo")
    daemon.wait_for("cycle=done mode=active policy=fifo", times=before + 1)
    assert daemon.log.count("model=in_turn") == 2
