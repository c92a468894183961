"""`release --unattended`, which systemd runs after the daemon and every minute."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.cli import release
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from tests.fakes.fake_cluster import FakeCluster

JOBS = {1: 500, 2: 700, 3: 0}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of three jobs carry a factor; the state file says so."""
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    fake.set(now=now)
    for job, factor in JOBS.items():
        fake.add(job, submit=now - 100, eligible=now - 100, site=factor)
    fake.enter(monkeypatch)
    StateFile(tmp_path / "state.json").write({1, 2})
    (tmp_path / "site.toml").write_text(
        f'[hook]\nstate_file = "{tmp_path}/state.json"\naudit_file = ""\n'
    )
    return tmp_path


def unattended(site: Path) -> int:
    return main(["release", "--unattended", "--config", str(site / "site.toml")])


def factors(site: Path) -> list[int]:
    return [job["site"] for job in json.loads((site / "slurm.json").read_text())["jobs"]]


def calls(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes every look at Slurm a failure, and returns what was asked."""
    asked: list[str] = []
    monkeypatch.setattr(release, "build_batch_system", lambda *words: asked.append("slurm"))
    return asked


def test_it_takes_back_what_nobody_looks_after(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unattended(site) == 0
    assert factors(site) == [0, 0, 0]
    assert StateFile(site / "state.json").read() == set()
    assert capsys.readouterr().out.startswith("released ")


def test_it_says_and_asks_nothing_where_no_factor_of_ours_stands(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    StateFile(site / "state.json").write(set())
    asked = calls(site, monkeypatch)
    assert unattended(site) == 0
    (site / "state.json").unlink()
    assert unattended(site) == 0
    assert asked == []
    assert capsys.readouterr() == ("", "")
    assert factors(site) == [500, 700, 0]  # another program's


def test_it_leaves_a_running_daemon_alone(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = calls(site, monkeypatch)
    with only_daemon(site / "state.json"):
        assert unattended(site) == 0
    assert asked == []
    assert factors(site) == [500, 700, 0]


def test_a_state_file_that_cannot_be_trusted_counts_as_factors(site: Path) -> None:
    (site / "state.json").write_text("{")
    assert unattended(site) == 0
    assert factors(site) == [0, 0, 0]
    assert StateFile(site / "state.json").read() == set()


def test_a_faulty_configuration_keeps_no_factor(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys that are right in themselves hold: the state file is the site's own."""
    path = site / "site.toml"
    path.write_text(path.read_text() + 'max_writes = "many"\n[reward]\nfairness = 0.9\n')
    assert unattended(site) == 0
    assert factors(site) == [0, 0, 0]
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in told] == [f"{path}:4", f"{path}:6"]
    assert unattended(site) == 0
    assert capsys.readouterr() == ("", "")  # not every minute again


def test_a_configuration_that_cannot_be_read_is_no_silent_failure(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "site.toml").write_text("[hook\n")
    assert unattended(site) == 1
    assert "it is not known what was written" in capsys.readouterr().err
    assert factors(site) == [500, 700, 0]


@pytest.mark.parametrize(
    ("fault", "status"), [("", 0), ('max_writes = "many"', 1)], ids=["whole", "faulty"]
)
def test_beside_a_controller_that_is_not_in_charge_factors_are_the_other_daemons(
    site: Path, fault: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    here = socket.gethostname().partition(".")[0]
    document = json.loads((site / "slurm.json").read_text())
    document["controllers"] = [["other", True], [here, True]]
    (site / "slurm.json").write_text(json.dumps(document))
    path = site / "site.toml"
    # a fault may be in the very key that says that there are two daemons
    path.write_text(path.read_text() + (fault or "beside_controllers = true") + "\n")
    assert unattended(site) == status  # not known to be the other daemon's: never 0
    assert factors(site) == [500, 700, 0]
    said = capsys.readouterr()
    assert (said.out, "another host's controller" in said.err) == ("", status == 1)
    assert StateFile(site / "state.json").read() == {1, 2}


def test_without_slurm_it_fails_and_forgets_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert unattended(site) == 1
    assert StateFile(site / "state.json").read() == {1, 2}


def test_one_that_was_cut_short_before_its_second_look_is_done_again(site: Path) -> None:
    """A write that got no answer may have come after the first look."""
    StateFile(site / "state.json").write(set(), unanswered=True)
    assert unattended(site) == 0
    assert factors(site) == [0, 0, 0]
    assert not StateFile(site / "state.json").is_unanswered()
