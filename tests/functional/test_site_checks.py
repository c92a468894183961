"""Each check of `slurm-rl check`: a case that passes, one that warns and one that fails."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.running_daemon import free_port
from tests.functional.small_site import small_network, write_site_utility_model

Found = dict[str, tuple[str, str]]


class Site:
    """A fake cluster, a configuration, and the checks of both."""

    def __init__(self, folder: Path, cluster: FakeCluster, port: int) -> None:
        self.folder, self.cluster = folder, cluster
        self.sections: dict[str, dict[str, Any]] = {
            "hook": {
                "disable_file": f"{folder}/DISABLE",
                "state_file": f"{folder}/state.json",
                "audit_file": f"{folder}/audit.jsonl",
            },
            "policy": {"model": "sjf"},
            "metrics": {"port": port},
        }

    def set(self, section: str, **values: Any) -> None:
        self.sections.setdefault(section, {}).update(values)

    def checks(self, capsys: pytest.CaptureFixture[str], *words: str) -> Found:
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in values.items())
            for name, values in self.sections.items()
        )
        (self.folder / "site.toml").write_text(text)
        capsys.readouterr()
        status = main(["check", "--json", "--config", f"{self.folder}/site.toml", *words])
        document = json.loads(capsys.readouterr().out)
        found = {each["name"]: (each["result"], each["what"]) for each in document["checks"]}
        assert status == int(any(result == "fail" for result, _ in found.values()))
        assert len(found) == len(document["checks"])
        return found


Checks = Callable[..., Found]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    cluster = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    cluster.set(now=now)
    for job in (1, 2, 3):
        cluster.add(job, submit=now - 99, eligible=now - 99)
    cluster.enter(monkeypatch)
    return Site(tmp_path, cluster, free_port())


@pytest.fixture
def checks(site: Site, capsys: pytest.CaptureFixture[str]) -> Checks:
    return lambda *words: site.checks(capsys, *words)


def test_all_is_well(checks: Checks, capsys: pytest.CaptureFixture[str], site: Site) -> None:
    found = checks()
    assert {result for result, _ in found.values()} == {"pass"}, found
    assert main(["check", "--config", f"{site.folder}/site.toml"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["RESULT", "CHECK", "WHAT"]
    what = table[0].index("WHAT")
    assert all(line[what - 1] == " " != line[what] for line in table[1:]), "flush left"
    assert len(table) == 1 + len(found) <= 24  # one screen


@pytest.mark.parametrize(
    ("release", "result"), [("22.05.8", "pass"), ("26.05.5", "pass"), ("21.08.1", "warn")]
)
def test_release(checks: Checks, site: Site, release: str, result: str) -> None:
    site.cluster.set(settings={"SLURM_VERSION": release})
    assert checks()["batch system"][0] == result


def test_weights(checks: Checks, site: Site) -> None:
    site.set("hook", influence_hours=24)
    assert checks()["weights"] == (
        "pass",
        "the priorities of waiting jobs differ by 0 points, the daemon's by 1000",
    )
    site.cluster.change(3, factors={"age": 0, "assoc": 0, "fairshare": 90000, "size": 0, "qos": 0})
    result, what = checks()["weights"]
    assert (result, "raise influence_hours" in what) == ("warn", True)
    assert checks()["influence"] == ("pass", "24 h of age: 1000 points")
    site.cluster.set(settings={"PriorityWeightAge": "0"})
    result, what = checks()["influence"]
    assert (result, "raise PriorityWeightAge" in what) == ("fail", True)


@pytest.mark.parametrize(
    ("ahead", "result"), [(0, "pass"), (-1, "pass"), (9, "warn"), (-9, "warn"), (400, "fail")]
)
def test_clock(checks: Checks, site: Site, ahead: int, result: str) -> None:
    site.cluster.set(load={"ahead": ahead})
    found, what = checks()["clock"]
    assert found == result
    assert (result == "pass") or "NTP" in what


def test_accounting(checks: Checks, site: Site) -> None:
    site.cluster.break_command("sacct", "fail:Slurm accounting storage is disabled")
    result, what = checks()["accounting"]
    assert (result, "only reports need it" in what) == ("warn", True)
    site.set("policy", model="default")
    result, what = checks()["accounting"]
    assert (result, "without past runs" in what) == ("fail", True)
    site.set("batch_system", history_days=0)
    assert checks()["accounting"][0] == "warn"


def test_federation(checks: Checks, site: Site) -> None:
    job = (1 << 26) + 1
    site.cluster.add(job, siblings=("1", "1,2"))
    site.cluster.set(federation=["Federation: fed", "Self: x:h:1 ID:1", "Sibling:  y:h:2 ID:2"])
    result, what = checks()["federation"]
    assert (result, what.startswith("in a federation with y: 1 of 4")) == ("warn", True)
    site.cluster.set(federation=["Federation: fed", "Self: x:h:1 ID:1"])
    assert "federation" not in checks()


def test_other_writer(checks: Checks, site: Site) -> None:
    site.cluster.change(2, site=7)
    result, what = checks()["other writer"]
    assert (result, "SiteFactor of 1 of 3 waiting jobs (job 2 first)" in what) == ("warn", True)
    StateFile(site.folder / "state.json").write([2])
    assert "other writer" not in checks()


def test_exemptions(checks: Checks, site: Site) -> None:
    site.cluster.set(partition_lines=["PartitionName=batch Nodes=ALL", "PartitionName=gpu"])
    assert "exemptions" not in checks()
    site.set("guard_rails", exempt_accounts=["physics"], exempt_partitions=["gpu"])
    known = "account, partition: all names are known here"
    assert checks()["exemptions"] == ("pass", known)
    site.set("guard_rails", exempt_accounts=["Physics"], exempt_qos=["normal", "fast"])
    assert checks()["exemptions"] == (
        "warn",
        "there is no account Physics, QOS fast here, so no job is exempt by it: "
        "write [guard_rails] exempt_* as the batch system does",
    )


def test_exemptions_by_names_that_nobody_can_tell_are_not_judged(
    checks: Checks, site: Site
) -> None:
    site.set("guard_rails", exempt_partitions=["gpu"], exempt_qos=["fast"])
    site.cluster.break_command("sacctmgr", "fail:no accounting here")
    assert "exemptions" not in checks()


def test_resources(checks: Checks, site: Site) -> None:
    assert checks()["resources"] == ("pass", "slurm.conf counts processors alone")
    counted = {"SelectTypeParameters": "CR_CORE_MEMORY", "GresTypes": "gpu"}
    one = {"name": "g1", "cpus": "0/8/0/8", "partitions": ["batch"], "memory": 64000}
    nodes = [{**one, "gres": "gpu:a100:4"}, {**one, "name": "g2", "gres": "gpu:v100:2"}]
    site.cluster.set(settings=counted, nodes=nodes[:1])
    told = "of usable nodes (memory in MiB): cpus 8, memory 64000, gpus 4, gres/gpu:a100 4"
    assert checks()["resources"] == ("pass", told)
    site.cluster.set(nodes=nodes)
    result, what = checks()["resources"]
    assert (result, "no type of gres/gpu:a100, gres/gpu:v100" in what) == ("warn", True)
    tracked = "cpu,mem,gres/gpu,gres/gpu:a100,gres/gpu:v100"
    site.cluster.set(settings={**counted, "AccountingStorageTRES": tracked})
    assert checks()["resources"][0] == "pass"
    site.cluster.set(nodes=[{**one, "gres": "gpu:a:b:c:1"}])
    result, what = checks()["resources"]
    assert (result, "processors alone count" in what) == ("warn", True)


def test_shares(checks: Checks, site: Site) -> None:
    site.set("shares", physics=0.7, biology=0.3)
    assert checks()["shares"] == ("pass", "all 2 accounts are Slurm's too")
    site.sections["shares"] = {"physics": 1.0}
    assert checks()["shares"] == ("warn", "not in [shares], so with share 0: biology")
    site.sections["shares"] = {"physics": 0.5, "fysics": 0.5}
    result, what = checks()["shares"]
    assert (result, "called fysics" in what) == ("fail", True)
    del site.sections["shares"]
    site.cluster.set(shares=[["root", "", "", "0"]])
    assert checks()["shares"][0] == "warn"
    site.cluster.break_command("sshare", "garbage")
    assert checks()["batch system"][0] == "fail"


@pytest.fixture
def served() -> int:
    return serve_metrics(CycleMetrics(CollectorRegistry(), {"name": "sjf"}), "127.0.0.1", 0)


def test_metrics_port(checks: Checks, site: Site, served: int) -> None:
    assert checks()["metrics port"][1].endswith("is free")
    site.set("metrics", port=served)
    assert checks()["metrics port"] == ("pass", f"{served}: the daemon answers there")
    site.set("metrics", port=0)
    assert checks()["metrics port"][0] == "warn"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        site.set("metrics", port=other.getsockname()[1])
        result, what = checks()["metrics port"]
    assert (result, "set [metrics] port to another" in what) == ("fail", True)
    site.set("metrics", port=served, address="192.0.2.1")
    assert checks()["metrics port"][0] == "fail"


def test_what_the_metrics_name_can_be_used_or_no_daemon_starts(
    checks: Checks, site: Site, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere.pem")
    site.set("metrics", tls_certificate=nowhere, tls_key=nowhere, textfile="/tmp/slurm_rl.txt")
    found = checks()
    assert found["metrics tls"][0] == found["metrics textfile"][0] == "fail"
    assert "nowhere.pem" in found["metrics tls"][1]
    assert "ends in .prom" in found["metrics textfile"][1]


def test_reward(
    checks: Checks, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert checks()["reward"][1].startswith("a rule has no reward")
    site.set("policy", model="default")
    assert checks()["reward"] == ("pass", "the model was trained for the weights of [reward]")
    site.set("goals", short_jobs=2.0)
    assert checks()["reward"] == ("pass", "the model was trained for the weights of [reward]")
    site.set("reward", slowdown=0.0, tail=0.1)
    result, what = checks()["reward"]
    assert (result, "trained with tail = 2, slowdown = 10" in what) == ("fail", True)
    assert main(["run", "--once", "--config", f"{site.folder}/site.toml"]) == 0
    assert any(said.startswith("reward=differs configured=") for said in caplog.messages)
    export_network(small_network(), tmp_path / "mute.onnx", {"estimates": "requested"})
    site.set("policy", model=f"{tmp_path}/mute.onnx")
    assert checks()["reward"][0] == "warn"


def test_decision_time_on_as_many_jobs_as_asked_for(checks: Checks, site: Site) -> None:
    site.set("policy", model="default")
    result, what = checks()["decision time"]
    assert (result, " s for 1000 jobs, allowed 2 s" in what) == ("pass", True)
    assert " s for 3000 jobs" in checks("--jobs", "3000")["decision time"][1]
    site.set("policy", inference_deadline=0.001)
    assert checks("--jobs", "20000")["decision time"][0] == "fail"


def test_decision_time_near_the_deadline_warns(
    checks: Checks, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_rl_plugin.services import checks as model_checks  # noqa: PLC0415

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            self.now += 1.5
            return self.now

    monkeypatch.setattr(model_checks, "time", Clock())
    assert checks()["decision time"][0] == "warn"


def test_disable_file(checks: Checks, site: Site) -> None:
    assert checks()["disable_file"] == ("pass", "nothing is disabled")
    (site.folder / "DISABLE").touch()
    result, what = checks()["disable_file"]
    assert (result, "`slurm-rl enable` ends it" in what) == ("warn", True)
    site.set("hook", disable_file=f"{site.folder}/none/DISABLE")
    assert checks()["disable_file"][0] == "warn"


def test_without_slurm_the_rest_is_checked(checks: Checks, site: Site) -> None:
    site.cluster.break_command("scontrol", "down")
    found = checks()
    assert found["batch system"][0] == "fail"
    assert found["metrics port"][0] == found["reward"][0] == "pass"


def test_a_site_without_offers_has_no_check_of_them(site: Site, checks: Checks) -> None:
    site.set("offer", token_file=f"{site.folder}/token")
    assert "offer token" in checks()
    del site.sections["offer"]
    assert not [name for name in checks() if name.startswith("offer")]


def test_offers_want_a_token_a_free_port_and_a_will_run_test(site: Site, checks: Checks) -> None:
    token = site.folder / "token"
    token.write_text("t" * 64)
    token.chmod(0o640)
    site.set("offer", token_file=str(token), port=0)
    found = {name: result for name, (result, _) in checks().items() if name.startswith("offer")}
    assert found == dict.fromkeys(("offer token", "offer tls", "offer port", "offer test"), "pass")
    token.chmod(0o644)
    assert checks()["offer token"][0] == "warn"
    token.write_text("short")
    assert checks()["offer token"][0] == "fail"
    words = "Invalid account or account/partition combination specified"
    site.cluster.set(wait=words)
    result, what = checks()["offer test"]
    assert (result, words in what, "[offer] account" in what) == ("fail", True, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        site.set("offer", port=taken.getsockname()[1])
        assert checks()["offer port"][0] == "warn"
    site.set("offer", tls_certificate=str(token), tls_key=str(token))
    assert checks()["offer tls"][0] == "fail"
    site.set("offer", utility_model=str(write_site_utility_model(site.folder / "utility.onnx")))
    assert checks()["offer utilities"][0] == "pass"
    site.set("offer", utility_model=str(token), forward_hops=1)
    assert checks()["offer utilities"][0] == "fail"
    sites = site.folder / "sites.toml"
    site.set("route", sites_file=str(sites))
    result, what = checks()["offer forwarding"]
    assert (result, "names no site" in what) == ("fail", True)
    sites.write_text(f'[[site]]\nname = "far"\nurl = "https://far"\ntoken_file = "{token}"\n')
    assert checks()["offer forwarding"][0] == "pass"
