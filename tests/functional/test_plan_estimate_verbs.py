"""What the verbs say and do of plan estimates, on a fake Slurm: run, check, status, release."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.assembly.hook import model_path
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.learning.export.network import export_network, network_of
from slurm_rl_plugin.learning.export.onnx_file import read_onnx
from slurm_rl_plugin.policies.plan_gain import PLAN_GAIN_ENTRY, PlanGain
from tests.fakes.fake_cluster import FakeCluster

SOFT = {
    "SLURM_VERSION": "26.05.5",
    "SchedulerParameters": "bf_interval=20,time_min_as_soft_limit",
    "EnforcePartLimits": "ALL",
}
DAY = 86400
GAINED = PlanGain.judged(slowdown=0.9, ci95=(0.82, 0.97), longest_wait=1.05, runs=16)


class Site:
    """Eight processors: job 1 runs on four, job 2 waits for all since long, job 3 is a candidate.

    Job 3 asks for two hours more than job 1 has left, and hardly anybody runs so long.
    """

    def __init__(self, folder: Path, cluster: FakeCluster) -> None:
        self.folder, self.cluster = folder, cluster
        now = int(time.time())  # noqa: TID251 - the clock of the commands
        cluster.set(now=now, settings=SOFT)
        since = {"submit": now - 20 * DAY, "eligible": now - 20 * DAY}
        fresh = {"submit": now - 90, "eligible": now - 90}
        cluster.add(1, **since, processors=4, time_limit="10:00:00", partition="batch")
        cluster.run_job(1, start=now - 60)
        cluster.add(2, **since, processors=8, time_limit="1:00:00")
        cluster.add(3, **fresh, processors=1, time_limit="12:00:00")
        self.hook: dict[str, Any] = {"mode": "active"}
        self.plan = {"estimates": True}
        self.model = folder / "site.onnx"
        self.gained(GAINED)

    def gained(self, gain: PlanGain | None) -> None:
        """Let the model, which is the default one otherwise, say this of plan estimates."""
        default = read_onnx(model_path("default"))
        told = {key: text for key, text in default.metadata.items() if key != PLAN_GAIN_ENTRY}
        if gain is not None:
            told[PLAN_GAIN_ENTRY] = json.dumps(asdict(gain))
        export_network(network_of(default), self.model, told)

    @property
    def plan_file(self) -> Path:
        return self.folder / "state.json.plan"

    @property
    def minutes(self) -> dict[int, int]:
        """TimeMin of each job that has one."""
        jobs = self.cluster.state["jobs"]
        return {job["job_id"]: job["time_min"] for job in jobs if job["time_min"]}

    def run(self, *words: str) -> int:
        files = {"state_file": "state.json", "audit_file": "audit.jsonl", "disable_file": "DISABLE"}
        paths = {key: f"{self.folder}/{name}" for key, name in files.items()}
        sections: dict[str, dict[str, Any]] = {
            "hook": {**paths, **self.hook},
            "policy": {"model": str(self.model)},
            "metrics": {"port": 0},
            "plan": self.plan,
        }
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in keys.items())
            for name, keys in sections.items()
        )
        (self.folder / "site.toml").write_text(text)
        return main([*words, "--config", f"{self.folder}/site.toml"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    cluster = FakeCluster(tmp_path)
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    return Site(tmp_path, cluster)


def test_a_cycle_tells_the_candidate_alone_and_release_takes_it_back(site: Site) -> None:
    assert site.run("run", "--once") == 0
    assert list(site.minutes) == [3]
    assert 1 <= site.minutes[3] < 600
    assert [job["time_limit"] for job in site.cluster.state["jobs"]] == [
        "10:00:00",
        "1:00:00",
        "12:00:00",
    ]
    assert site.plan_file.stat().st_mode & 0o007 == 0
    assert site.run("run", "--once") == 0  # nothing has changed
    assert list(site.minutes) == [3]
    assert site.run("release") == 0
    assert (site.minutes, site.plan_file.exists()) == ({}, False)


@pytest.mark.parametrize("why", ["shadow", "off", "no flag"])
def test_nothing_is_told_where_the_site_does_not_want_it_or_slurm_would_cut_limits(
    site: Site, why: str
) -> None:
    site.hook["mode"] = "shadow" if why == "shadow" else "active"
    site.plan["estimates"] = why != "off"
    if why == "no flag":
        site.cluster.set(settings={**SOFT, "SchedulerParameters": "bf_continue"})
    assert site.run("run", "--once") == 0
    assert (site.minutes, site.plan_file.exists()) == ({}, False)


def test_the_flag_goes_and_so_do_the_estimates(site: Site) -> None:
    site.run("run", "--once")
    site.cluster.set(settings={**SOFT, "SchedulerParameters": "bf_continue"})
    assert site.run("run", "--once") == 0
    assert (site.minutes, site.plan_file.exists()) == ({}, False)


def test_check_says_whether_it_is_sound(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    def results() -> dict[str, list[str]]:
        capsys.readouterr()
        site.run("check", "--json")
        checks = json.loads(capsys.readouterr().out)["checks"]
        return {each["name"]: [each["result"], each["what"]] for each in checks}

    found = results()
    assert found["plan run times"] == ["pass", "site foretells run times"]
    assert found["estimates flag"][0] == "pass"
    site.cluster.set(settings={**SOFT, "SLURM_VERSION": "22.05.8"})
    assert results()["estimates release"][0] == "fail"
    site.plan["estimates"] = False
    off = results()
    assert off["plan estimates"] == ["pass", "off: the scheduler plans with time limits"]
    assert "estimates flag" not in off


LITTLE = PlanGain.judged(slowdown=0.99, ci95=(0.91, 1.06), longest_wait=1.05, runs=16)
DOUBT = LITTLE.doubt("site")


def test_nothing_is_told_under_a_model_whose_training_gained_nothing(
    site: Site, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert site.run("run", "--once") == 0
    assert site.minutes
    site.gained(LITTLE)
    caplog.clear()
    assert site.run("run", "--once") == 0  # what stood is taken back
    assert (site.minutes, site.plan_file.exists()) == ({}, False)
    assert caplog.text.count(DOUBT) == 1
    capsys.readouterr()
    site.run("status")
    assert f"plan estimates: none: {DOUBT}" in capsys.readouterr().out
    site.run("status", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["policy"]["plan_doubt"] == DOUBT
    assert not any("estimates" in each for each in document["problems"])
    site.plan["insist"] = True
    assert site.run("run", "--once") == 0
    assert list(site.minutes) == [3]
    capsys.readouterr()
    site.run("status")
    assert "plan estimates: none" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gain", "insist", "result", "words"),
    [
        (GAINED, False, "pass", "gained in the model's training: slowdown 0.900"),
        (LITTLE, False, "warn", f"none are given: {DOUBT}"),
        (LITTLE, True, "pass", "and [plan] insist gives them all the same"),
        (PlanGain(verdict="not measured"), False, "warn", "the training logs are too short"),
        (None, False, "warn", "the model does not say whether anything is gained by them"),
    ],
)
def test_check_says_what_the_training_gained(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    gain: PlanGain | None,
    insist: bool,
    result: str,
    words: str,
) -> None:
    site.gained(gain)
    site.plan["insist"] = insist
    site.run("check", "--json")
    checks = json.loads(capsys.readouterr().out)["checks"]
    (found,) = [each for each in checks if each["name"] == "plan gain"]
    assert found["result"] == result
    assert words in found["what"]


def test_a_model_that_says_nothing_leaves_it_to_the_administrator(site: Site) -> None:
    site.gained(None)
    assert site.run("run", "--once") == 0
    assert list(site.minutes) == [3]


def test_explain_tells_how_the_run_time_is_spread(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run("explain", "3", "--json") == 0
    told = json.loads(capsys.readouterr().out)["run_time"]["predicted"]
    assert list(told["quantiles"]) == ["0.1", "0.25", "0.5", "0.75", "0.9"]
    assert list(told["quantiles"].values()) == sorted(told["quantiles"].values())
    assert told["median"] == told["quantiles"]["0.5"]
    assert site.run("explain", "3") == 0
    assert "of ten such runs eight last from" in capsys.readouterr().out


def test_status_tells_of_estimates_that_nobody_looks_after(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.run("run", "--once")
    capsys.readouterr()
    assert site.run("status", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["plan_estimates_stand"] is True
    assert any(each.startswith("plan estimates of ours") for each in document["problems"])
    assert site.run("release") == 0
    assert "released the plan estimates" in capsys.readouterr().out


def test_disable_without_a_daemon_says_what_stands(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.run("run", "--once")
    capsys.readouterr()
    assert site.run("disable", "--wait", "0") == 1
    assert "plan estimates may stand" in capsys.readouterr().out
    assert site.run("run", "--once") == 0  # disabled: it takes back what it can
    assert (site.minutes, site.plan_file.exists()) == ({}, False)
