"""`slurm-rl run` with TLS and a textfile over the fake Slurm, and `status` beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.serving.tls import TlsFiles
from tests.fakes.certificates import self_signed
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.running_daemon import free_port, running_daemon, until


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a queue of the fake Slurm."""
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the daemon's clock
    fake.set(now=now)
    for job in range(1, 4):
        fake.add(job, submit=now - 100, eligible=now - 100)
    fake.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(folder: Path, *metrics: str, model: str = "sjf") -> None:
    (folder / "site.toml").write_text(
        f'[hook]\nmode = "shadow"\ncycle = 0.5\ndisable_file = ""\naudit_file = ""\n'
        f'state_file = "{folder}/state.json"\n[policy]\nmodel = "{model}"\n[metrics]\n'
        + "\n".join(metrics)
    )


def tls_lines(files: TlsFiles) -> tuple[str, str]:
    return f'tls_certificate = "{files.certificate}"', f'tls_key = "{files.key}"'


@contextmanager
def daemon(folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One whose first cycle is over."""
    with running_daemon(folder, log) as process:
        until(lambda: "cycle=done" in log.read_text(), "a cycle")
        yield process


def test_status_reads_a_daemon_over_tls(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = self_signed(site, "head")
    port = free_port()
    configure(site, f"port = {port}", *tls_lines(files))
    log = site / "daemon.log"
    with daemon(site, log):
        assert f"metrics=https://127.0.0.1:{port}/metrics" in log.read_text()
        assert main(["status", "--config", "site.toml", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metrics"]["mode"] == "shadow"
        configure(site, f"port = {port}", *tls_lines(self_signed(site, "other")))
        main(["status", "--config", "site.toml", "--json"])
        assert "verify failed" in json.loads(capsys.readouterr().out)["metrics"]["unread"]
        client = f'tls_client_ca = "{files.certificate}"'
        configure(site, f"port = {port}", *tls_lines(files), client)
        main(["status", "--config", "site.toml", "--json"])
        assert "wants a client's" in json.loads(capsys.readouterr().out)["metrics"]["unread"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (('tls_certificate = "gone.pem"', 'tls_key = "gone.key"'), "gone.pem cannot be read"),
        (('tls_certificate = "gone.pem"',), "tls_certificate needs tls_key"),
        (('tls_client_ca = "ca.pem"',), "tls_client_ca needs tls_certificate"),
        (('textfile = "slurm-rl.txt"',), "ends in .prom"),
    ],
)
def test_what_cannot_be_served_ends_the_start(
    site: Path, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], told: str
) -> None:
    configure(site, "port = 0", *lines)
    assert main(["run", "--config", "site.toml"]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("slurm-rl")]
    assert len(said) == 1
    assert told in said[0]


def test_the_textfile_follows_each_cycle_and_goes_with_the_daemon(site: Path) -> None:
    textfile = site / "node" / "slurm-rl.prom"
    configure(site, "port = 0", f'textfile = "{textfile}"')
    log = site / "daemon.log"
    with daemon(site, log) as process:
        until(lambda: "textfile=failed" in log.read_text(), log)  # no such folder yet
        textfile.parent.mkdir()
        until(textfile.exists, log)
        first = textfile.read_text()
        assert "slurm_rl_up 1.0" in first
        until(lambda: textfile.read_text() != first, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert list(textfile.parent.iterdir()) == []


def test_one_cycle_leaves_its_textfile(site: Path) -> None:
    configure(site, f'textfile = "{site}/slurm-rl.prom"')
    assert main(["run", "--once", "--config", "site.toml"]) == 0
    assert "slurm_rl_cycles_total 1.0" in (site / "slurm-rl.prom").read_text()


def test_a_reload_is_told_and_what_it_changes_is_served(site: Path) -> None:
    port = free_port()
    configure(site, f"port = {port}")
    log = site / "daemon.log"

    def served() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    with daemon(site, log) as process:
        assert 'slurm_rl_configured_mode{slurm_rl_configured_mode="shadow"} 1.0' in served()
        configure(site, f"port = {port}", model="gone.onnx")
        process.send_signal(signal.SIGHUP)
        until(lambda: "slurm_rl_last_reload_successful 0.0" in served(), log)
        assert 'name="sjf"' in served()
        configure(site, f"port = {port}", model="fifo")
        text = (site / "site.toml").read_text().replace('"shadow"', '"active"')
        (site / "site.toml").write_text(text + "\n[guard_rails]\nstarvation_hours = 1\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "slurm_rl_last_reload_successful 1.0" in served(), log)
        assert 'slurm_rl_configured_mode{slurm_rl_configured_mode="active"} 1.0' in served()
        assert "slurm_rl_starvation_bound_seconds 3600.0" in served()
        assert 'name="fifo"' in served()
