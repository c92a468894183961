"""A daemon over a fake Slurm: how it is built, what it serves, and what a reload changes."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm import adapter as slurm_adapter
from slurm_rl_plugin.batch_systems.slurm.adapter import Slurm
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.turns import RUNNING, ExperimentFiles, ExperimentStanding
from slurm_rl_plugin.services.configured_site import build_batch_system
from slurm_rl_plugin.services.hook import build_cycle, load_policy
from slurm_rl_plugin.serving.tls import TlsFiles
from tests.architecture.markdown_documents import TOP
from tests.fakes.certificates import self_signed
from tests.fakes.running_daemon import free_port, running_daemon, stop, until
from tests.functional.fake_site import FakeSite
from tests.unit.configuration.given_content import configuration_of


class RunningDaemon(FakeSite):
    """`slurm-rl run` on a fake Slurm, one cycle each ten minutes."""

    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "daemon.log").read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        until(lambda: self.log.count(text) >= times, text)

    def reload(self, answer: str, times: int = 1, **policy: str) -> None:
        """SIGHUP, and wait until the log holds the answer `times` times."""
        self.configure("policy", **policy or self.sections["policy"])
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(answer, times)


@pytest.fixture
def daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunningDaemon]:
    site = RunningDaemon(tmp_path, monkeypatch, capsys)
    for job in range(1, 6):
        site.wait(job, 100 - job, time_limit=f"{60 - job}:00")
    (tmp_path / "conf.d").mkdir()
    site.configure("policy", model="fifo")
    site.configure("hook", mode="shadow", audit_file="")
    site.configure("metrics", port=free_port())
    libraries = os.pathsep.join([str(tmp_path / "libraries"), str(TOP)])
    given = {"PYTHONPATH": libraries, "SLURM_RL_METRICS_PORT": "0"}
    flags = ("--set", "hook.cycle=600", "--set", "hook.mode=active")
    log = tmp_path / "daemon.log"
    with running_daemon(tmp_path, log, {**os.environ, **given}, *flags) as site.process:
        site.wait_for("cycle=done")
        yield site
        stop(site.process)


def test_a_reload_reads_all_sources_as_the_start_does(daemon: RunningDaemon) -> None:
    (daemon.folder / "conf.d" / "model.toml").write_text('[policy]\nmodel = "sjf"\n')
    daemon.reload("reload=done policy=sjf")
    daemon.wait_for("policy=sjf pending")
    # the variable and the flag of the start go over what the file says now
    daemon.configure("metrics", port=70)
    (daemon.folder / "conf.d" / "model.toml").unlink()
    daemon.reload("reload=done policy=fifo")
    daemon.wait_for("cycle=done mode=active policy=fifo", times=2)
    assert "needs a restart" not in daemon.log


def test_a_faulty_reload_names_each_fault_and_changes_nothing(daemon: RunningDaemon) -> None:
    path = daemon.folder / "conf.d" / "a.toml"
    path.write_text("[hook]\nmode = 'on'\n[metrics]\nport = -1\n")
    daemon.reload("reload=refused", model="sjf")
    assert "conf.d/a.toml:2: [hook] mode must be one of shadow, active, not 'on'." in daemon.log
    assert "conf.d/a.toml:4: [metrics] port must be from 0 to 65535, not -1" in daemon.log
    path.unlink()
    daemon.reload("reload=refused", times=2, model="missing.onnx")
    daemon.wait_for("cycle=done", times=3)
    assert "policy=sjf" not in daemon.log


def test_a_refused_model_is_tried_again_at_once(daemon: RunningDaemon) -> None:
    """What refused it is not always in the file: here a library was missing."""
    library = daemon.folder / "libraries" / "onnxruntime"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("raise ImportError('no such library')\n")
    model = shutil.copy(TOP / "policy_models" / "default.onnx", daemon.folder / "site.onnx")
    daemon.reload("reload=refused", model=str(model))
    assert "no such library" in daemon.log
    shutil.rmtree(library)
    daemon.reload("reload=done policy=site")


def test_keys_of_the_start_are_named_in_one_line_and_kept(daemon: RunningDaemon) -> None:
    (daemon.folder / "conf.d" / "a.toml").write_text(
        f'[hook]\nstate_file = "{daemon.folder}/other.json"\n[metrics]\nmax_accounts = 7\n'
    )
    daemon.reload("reload=incomplete", model="sjf")
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


@pytest.mark.parametrize(
    ("model", "days", "asked"),
    [("default", 30.0, 30.0), ("default", 0, 0.0), ("reactive-grids", 30.0, 0.0)],
)
def test_days_of_history(tmp_path, model, days, asked):
    configuration = configuration_of(
        {
            "hook": {"state_file": str(tmp_path / "state.json"), "audit_file": ""},
            "batch_system": {"history_days": days},
        }
    )
    loaded = load_policy(model)
    assert loaded.learns_from_runs == (model == "default")
    assert build_cycle(configuration, loaded).batch_system._history_days == asked


def configured(adapter):
    return configuration_of({"batch_system": {"adapter": adapter}})


@pytest.mark.parametrize(
    ("adapter", "pyslurm", "kind", "line"),
    [
        ("auto", None, SlurmCommands, "adapter=slurm_commands because=pyslurm is not installed"),
        (
            *("auto", "25.11.2", SlurmCommands),
            "adapter=slurm_commands because=pyslurm 25.11.2 is not for Slurm 22.05.8",
        ),
        ("auto", "22.5.3", Slurm, "adapter=slurm because=pyslurm 22.5.3 is for this Slurm"),
        ("slurm", "22.5.3", Slurm, "adapter=slurm because=it is configured"),
        (
            *("slurm_commands", "22.5.3", SlurmCommands),
            "adapter=slurm_commands because=it is configured",
        ),
    ],
)
def test_adapter_and_the_line_that_says_why(monkeypatch, caplog, adapter, pyslurm, kind, line):
    monkeypatch.setattr(slurm_adapter, "installed_pyslurm", lambda: pyslurm)
    monkeypatch.setattr(slurm_adapter, "running_slurm", lambda commands: "22.05.8")
    caplog.set_level(logging.INFO)
    system = build_batch_system(configured(adapter), [])
    assert type(system) is kind
    assert line.startswith(f"adapter={system.name} ")
    assert caplog.messages[1:] == [line]  # the first says why it is no OpenPBS


def test_adapter_that_cannot_work_is_a_fault_of_the_configuration(monkeypatch):
    monkeypatch.setattr(slurm_adapter, "installed_pyslurm", lambda: None)
    with pytest.raises(ConfigurationError, match=r"pyslurm is not installed; install the pyslurm"):
        build_batch_system(configured("slurm"), [])


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    for job in range(1, 4):
        empty_site.wait(job)
    empty_site.configure("hook", mode="shadow", cycle=0.5, disable_file="", audit_file="")
    return empty_site


def tls_of(files: TlsFiles) -> dict[str, str]:
    return {"tls_certificate": str(files.certificate), "tls_key": str(files.key)}


@contextmanager
def daemon_served(site: FakeSite, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One whose first cycle is over."""
    with running_daemon(site.folder, log) as process:
        until(lambda: "cycle=done" in log.read_text(), "a cycle")
        yield process


def test_status_reads_a_daemon_over_tls(site: FakeSite) -> None:
    files, port, log = self_signed(site.folder, "head"), free_port(), site.folder / "daemon.log"
    site.configure("metrics", port=port, **tls_of(files))
    with daemon_served(site, log):
        assert f"metrics=https://127.0.0.1:{port}/metrics" in log.read_text()
        assert site.json("status")["metrics"]["mode"] == "shadow"
        site.configure("metrics", **tls_of(self_signed(site.folder, "other")))
        assert "verify failed" in site.json("status", code=None)["metrics"]["unread"]
        site.configure("metrics", **tls_of(files), tls_client_ca=str(files.certificate))
        assert "wants a client's" in site.json("status", code=None)["metrics"]["unread"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"tls_certificate": "gone.pem", "tls_key": "gone.key"}, "gone.key cannot be used"),
        ({"tls_certificate": "gone.pem"}, "tls_certificate needs tls_key"),
        ({"tls_client_ca": "ca.pem"}, "tls_client_ca needs tls_certificate"),
        ({"textfile": "slurm-rl.txt"}, "ends in .prom"),
    ],
)
def test_what_cannot_be_served_ends_the_start(
    site: FakeSite, keys: dict[str, str], told: str
) -> None:
    site.configure("metrics", **keys)
    status, _, err = site("run")
    assert status == 2
    (said,) = (line for line in err.splitlines() if line.startswith("slurm-rl"))
    assert told in said


def test_the_textfile_follows_each_cycle_and_goes_with_the_daemon(site: FakeSite) -> None:
    textfile, log = site.folder / "node" / "slurm-rl.prom", site.folder / "daemon.log"
    site.configure("metrics", textfile=str(textfile))
    with daemon_served(site, log) as process:
        until(lambda: "textfile=failed" in log.read_text(), "no such folder yet")
        textfile.parent.mkdir()
        until(textfile.exists, "the textfile")
        first = textfile.read_text()
        assert "slurm_rl_up 1.0" in first
        until(lambda: textfile.read_text() != first, "another cycle")
        stop(process)
    assert list(textfile.parent.iterdir()) == []


def test_one_cycle_leaves_its_textfile(site: FakeSite) -> None:
    site.configure("metrics", textfile=f"{site.folder}/slurm-rl.prom")
    site.out("run", "--once")
    assert "slurm_rl_cycles_total 1.0" in (site.folder / "slurm-rl.prom").read_text()


def test_a_reload_is_told_and_what_it_changes_is_served(site: FakeSite) -> None:
    port = free_port()
    site.configure("metrics", port=port)

    def is_served(text: str) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return text in answer.read().decode()

    with daemon_served(site, site.folder / "daemon.log") as process:
        assert is_served('slurm_rl_configured_mode{slurm_rl_configured_mode="shadow"} 1.0')
        site.configure("policy", model="gone.onnx")
        process.send_signal(signal.SIGHUP)
        until(lambda: is_served("slurm_rl_last_reload_successful 0.0"), "a refusal")
        assert is_served('name="sjf"')
        site.configure("policy", model="fifo")
        site.configure("guard_rails", starvation_hours=1)
        site.configure("hook", mode="active")
        process.send_signal(signal.SIGHUP)
        until(lambda: is_served("slurm_rl_last_reload_successful 1.0"), "a reload")
        assert is_served('slurm_rl_configured_mode{slurm_rl_configured_mode="active"} 1.0')
        assert is_served("slurm_rl_starvation_bound_seconds 3600.0")
        assert is_served('name="fifo"')
