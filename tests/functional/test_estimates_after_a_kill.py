"""The commands of the shipped units take plan estimates of a killed daemon back, Slurm's and PBS's.

A daemon that was killed leaves its file of estimates, and no factor: all of them had been taken
back. An estimate that is its user's own stays.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.hook.plan.estimates import plan_path
from slurm_rl_plugin.hook.plan.plan_file import PlanFile, PlanMemory
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_pbs_cluster import FakePbs, fake_libpbs
from tests.functional.test_system_files import settings

#: What they run after the daemon, and every minute.
UNITS = {"slurm-rl": "ExecStopPost", "slurm-rl-watchdog": "ExecStart"}


@dataclass
class Left:
    """What a killed daemon left: job 1 has an estimate of ours, job 2 one of its user.

    Attributes:
        folder: of its files.
        standing: which of the two have one.
        break_formula: what the hook of PBS does to scores; None on Slurm.
    """

    folder: Path
    standing: Callable[[], list[int]]
    break_formula: Callable[[], None] | None = None

    def run(self, unit: str) -> int:
        service = settings(TOP / "deploy" / "systemd" / f"{unit}.service")["Service"]
        _, *words = shlex.split(service[UNITS[unit]])
        return main([*words, "--config", str(self.folder / "site.toml")])


def _files(folder: Path) -> None:
    state = folder / "state.json"
    StateFile(state).write(set())
    PlanFile(plan_path(state)).write(PlanMemory(jobs={1: (300,)}))
    (folder / "site.toml").write_text(
        f'[hook]\nmode = "active"\nstate_file = "{state}"\naudit_file = ""\n'
        "[plan]\nestimates = true\n"
    )


def _on_slurm(folder: Path, now: int) -> tuple[FakeCluster, Left]:
    slurm = FakeCluster(folder)
    scheduler = {"SchedulerParameters": "time_min_as_soft_limit"}
    slurm.set(now=now, settings={"SLURM_VERSION": "26.05.5", **scheduler})
    for job, minutes in ((1, 5), (2, 7)):
        slurm.add(job, submit=now - 100, eligible=now - 100, time_min=minutes)
    return slurm, Left(
        folder, lambda: [job["job_id"] for job in slurm.state["jobs"] if job["time_min"]]
    )


def _on_pbs(folder: Path, now: int) -> tuple[FakePbs, Left]:
    pbs = FakePbs(folder, fake_libpbs(folder))
    pbs.plan()
    for job, seconds in ((1, 300), (2, 420)):
        pbs.add(f"{job}.head", ctime=now - 100, qtime=now - 100, etime=now - 100)
        pbs.request(f"{job}.head", soft_walltime=seconds)
    return pbs, Left(
        folder,
        lambda: [job for job in (1, 2) if pbs.soft_walltime(f"{job}.head")],
        lambda: pbs.set_server(job_sort_formula=""),
    )


@pytest.fixture(params=[_on_slurm, _on_pbs], ids=["slurm", "pbs"])
def left(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    _files(tmp_path)
    fake, found = request.param(tmp_path, int(time.time()))  # noqa: TID251 - the commands' clock
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_killed_daemon_left_is_taken_back(left: Left, unit: str) -> None:
    assert left.standing() == [1, 2]
    with only_daemon(left.folder / "state.json"):
        assert left.run(unit) == 0  # it looks after them
        assert left.standing() == [1, 2]
    assert left.run(unit) == 0
    assert left.standing() == [2]
    assert not plan_path(left.folder / "state.json").exists()


def test_the_sites_own_formula_of_pbs_keeps_no_estimate(left: Left) -> None:
    """The dead-man hook of PBS gives the order back, a minute after the last sign of life."""
    if left.break_formula is not None:
        left.break_formula()
    assert left.run("slurm-rl-watchdog") == 0
    assert left.standing() == [2]


def test_the_drop_in_for_pbs_runs_the_same_commands() -> None:
    drop_in = settings(TOP / "deploy" / "pbs" / "systemd" / "pbs.conf")["Service"]
    assert not [key for key in drop_in if key.startswith("Exec")]
