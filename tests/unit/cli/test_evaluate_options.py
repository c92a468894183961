"""`slurm-rl evaluate` with other loads, resampled logs, users and exports."""

import csv
import json

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.simulator.workloads.generators import egee_log

PROCESSORS = 5
RESAMPLED = ("mean_wait", "mean_bounded_slowdown", "interactive_mean_wait")


@pytest.fixture
def log(tmp_path):
    """Five weeks of a loaded site, and short jobs that wait."""
    path = tmp_path / "site.swf"
    jobs = egee_log(np.random.default_rng(1), jobs=800, processors=PROCESSORS, load=0.85)
    write_swf(path, jobs, comments=[])
    return path


def printed(capsys, *words):
    assert main(["evaluate", *map(str, words)]) == 0
    return capsys.readouterr().out


def evaluated(capsys, *words):
    return json.loads(printed(capsys, *words, "--json"))


def test_a_scaled_load_makes_the_same_jobs_wait_longer(capsys, log):
    plain, dense = evaluated(capsys, log), evaluated(capsys, log, "--scale-load", "1.5")
    assert (plain["log"]["scale_load"], dense["log"]["scale_load"]) == (1.0, 1.5)
    assert plain["log"]["shares"] == dense["log"]["shares"]
    for policy in ("fifo", "sjf"):
        before, after = plain["policies"][policy], dense["policies"][policy]
        assert after["mean_wait"] > before["mean_wait"]
        assert after["jobs"] == before["jobs"]


def test_estimates_do_not_change_with_the_load(capsys, log):
    same = evaluated(capsys, log, "--scale-load", "1", "--estimates", "class-median")
    assert same == evaluated(capsys, log, "--estimates", "class-median")


def test_resampled_logs_give_ratios_to_the_first_policy(capsys, log):
    words = ["--policy", "sjf", "--policy", "fifo", "--resample", 8, "--seed", 3]
    document = evaluated(capsys, log, *words)
    resampled = document["resampled"]
    assert (resampled["samples"], resampled["seed"]) == (8, 3)
    ratios = resampled["ratio_to_first_policy"]
    assert list(ratios) == ["sjf", "fifo"]
    for figure in RESAMPLED:
        assert ratios["sjf"][figure] == {"mean": 1.0, "ci95": [1.0, 1.0]}
        low, high = ratios["fifo"][figure]["ci95"]
        assert 1.0 < low <= ratios["fifo"][figure]["mean"] <= high
    assert evaluated(capsys, log, *words) == document
    other = evaluated(capsys, log, *words[:-1], 4)
    assert other["resampled"]["ratio_to_first_policy"] != ratios
    assert other["policies"] == document["policies"]


def test_resampled_policies_are_paired(capsys, log):
    """A policy and itself under another name never differ."""
    words = ["--policy", "edf", "--policy", "sjf", "--estimates", "class-median", "--resample", 5]
    ratios = evaluated(capsys, log, *words)["resampled"]["ratio_to_first_policy"]
    again = evaluated(capsys, log, *words[:2], "--policy", "fifo", *words[2:])["resampled"]
    assert again["ratio_to_first_policy"]["sjf"] == ratios["sjf"]


def test_a_figure_that_the_first_policy_does_not_have_is_null(capsys, tmp_path):
    path = tmp_path / "long.swf"
    rows = [
        f"{job + 1} {job * 30000} 0 20000 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1" for job in range(80)
    ]
    path.write_text("; MaxProcs: 2\n" + "\n".join(rows) + "\n")
    resampled = evaluated(capsys, path, "--resample", 3)["resampled"]
    ratios = resampled["ratio_to_first_policy"]["sjf"]
    assert ratios["interactive_mean_wait"] == {"mean": None, "ci95": None}  # no such jobs
    assert ratios["mean_wait"] == {"mean": None, "ci95": None}  # no job waits
    assert ratios["mean_bounded_slowdown"]["mean"] == 1.0
    assert "-" in printed(capsys, path, "--resample", 3)


def test_the_table_of_resampled_logs_is_printed_below_the_other(capsys, log):
    text = printed(capsys, log, "--resample", 4)
    assert "ratios to fifo on 4 logs" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("sjf")]
    assert len(rows) == 3  # figures, accounts, ratios
    low, _, high = rows[2][2].partition("-")
    assert float(low) <= float(rows[2][1]) <= float(high)


def test_users_are_summed_up_under_their_own_names(capsys, log):
    assert "users" not in evaluated(capsys, log)["policies"]["fifo"]
    document = evaluated(capsys, log, "--users", "--drop", "50,50")
    jobs, _ = read_log(log)
    counts = np.bincount(jobs.user[50:-50], minlength=len(jobs.users))
    for entry in document["policies"].values():
        users = entry["users"]
        assert {name: users[name]["jobs"] for name in users} == {
            name: count for name, count in zip(jobs.users, counts, strict=True) if count
        }
        for figure in ("mean_wait", "mean_bounded_slowdown"):
            weighted = sum(each["jobs"] * each[figure] for each in users.values())
            assert weighted / entry["jobs"] == pytest.approx(entry[figure])


def test_users_are_printed_with_each_policy(capsys, log):
    lines = printed(capsys, log, "--users").splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("USER"))
    jobs, _ = read_log(log)
    assert len(lines) - place - 1 == 2 * len(jobs.users)


def test_exported_schedules_give_the_same_waits_again(capsys, log, tmp_path):
    folder = tmp_path / "exports" / "new"
    document = evaluated(capsys, log, "--export", folder, "--scale-load", "1.2")
    assert document["exports"] == [
        str(folder / name) for name in ("fifo.swf", "fifo.csv", "sjf.swf", "sjf.csv")
    ]
    for policy in ("fifo", "sjf"):
        again = evaluated(capsys, folder / f"{policy}.swf", "--policy", "native")
        wait = document["policies"][policy]["mean_wait"]
        assert again["policies"]["native"]["mean_wait"] == pytest.approx(wait, abs=1e-5)
        assert again["log"]["processors"] == PROCESSORS
        with (folder / f"{policy}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert np.mean([float(row["wait"]) for row in rows]) == pytest.approx(wait)
        assert "--scale-load 1.2" in (folder / f"{policy}.swf").read_text()


def test_the_exports_of_two_runs_have_the_same_bytes(capsys, log, tmp_path):
    for folder in ("one", "two"):
        printed(capsys, log, "--export", tmp_path / folder)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("one", "two")
    )
    assert one == two
    assert {name.rsplit(".", 1)[1] for name in one} == {"csv", "swf"}


def test_plots_are_named_in_the_document(capsys, log, tmp_path):
    figures = evaluated(capsys, log, "--plot", tmp_path / "plots")["figures"]
    assert {path.rsplit("/", 1)[1] for path in figures} == {
        *("wait-cdf.png", "fairness.png", "queue-length.png", "gantt.png", "groups.png")
    }
