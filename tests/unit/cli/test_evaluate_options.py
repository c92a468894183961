"""`slurm-rl evaluate` with other loads, users and exports."""

import csv

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.simulator.workloads.generators import egee_log

PROCESSORS = 5


@pytest.fixture
def log(tmp_path):
    """Five weeks of a loaded site, and short jobs that wait."""
    path = tmp_path / "site.swf"
    jobs = egee_log(np.random.default_rng(1), jobs=800, processors=PROCESSORS, load=0.85)
    write_swf(path, jobs, comments=[])
    return path


def test_a_scaled_load_makes_the_same_jobs_wait_longer(typed, log):
    plain, dense = (typed.json("evaluate", f"{log}@load={each}") for each in (0.8, 1.2))
    assert plain["log"]["shares"] == dense["log"]["shares"]
    for policy in ("fifo", "sjf"):
        before, after = plain["policies"][policy], dense["policies"][policy]
        assert after["mean_wait"] > before["mean_wait"]
        assert after["jobs"] == before["jobs"]


def test_users_are_summed_up_under_their_own_names(typed, log):
    jobs, _ = read_log(log)
    document = typed.json("evaluate", log, "--users", "--drop", "50,50")
    counts = np.bincount(jobs.user[50:-50], minlength=len(jobs.users))
    for entry in document["policies"].values():
        users = entry["users"]
        assert {name: users[name]["jobs"] for name in users} == {
            name: count for name, count in zip(jobs.users, counts, strict=True) if count
        }
        for figure in ("mean_wait", "mean_bounded_slowdown"):
            weighted = sum(each["jobs"] * each[figure] for each in users.values())
            assert weighted / entry["jobs"] == pytest.approx(entry[figure])
    lines = typed.out("evaluate", log, "--users").splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("USER"))
    assert len(lines) - place - 1 == 2 * len(jobs.users)


def test_exported_schedules_give_the_same_waits_and_bytes_again(typed, log, tmp_path):
    folder, again = tmp_path / "exports" / "new", tmp_path / "again"
    document, _ = (
        typed.json("evaluate", f"{log}@load=1.2", "--export", each) for each in (folder, again)
    )
    names = ("fifo.swf", "fifo.csv", "sjf.swf", "sjf.csv")
    assert document["exports"] == [str(folder / name) for name in names]
    for name in names:
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    for policy in ("fifo", "sjf"):
        native = typed.json("evaluate", folder / f"{policy}.swf", "--policy", "native")
        wait = document["policies"][policy]["mean_wait"]
        assert native["policies"]["native"]["mean_wait"] == pytest.approx(wait, abs=1e-5)
        assert native["log"]["processors"] == PROCESSORS
        with (folder / f"{policy}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert np.mean([float(row["wait"]) for row in rows]) == pytest.approx(wait)
        assert "@load=1.2" in (folder / f"{policy}.swf").read_text()
