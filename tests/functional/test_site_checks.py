"""Each check of `slurm-rl check`: a case that passes, one that warns and one that fails."""

from __future__ import annotations

import socket

import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from tests.fakes.running_daemon import free_port
from tests.functional.fake_site import FakeSite
from tests.functional.small_site import small_network, write_site_utility_model


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    for job in (1, 2, 3):
        empty_site.wait(job)
    empty_site.configure("hook", mode="shadow", influence_hours=72)
    empty_site.configure("metrics", port=free_port())
    return empty_site


def test_all_is_well(site: FakeSite) -> None:
    """Each has a line of a table that fits one screen, and no priority has changed."""
    found = site.checks()
    assert {result for result, _ in found.values()} == {"pass"}, found
    assert found["lever"][1] == "SiteFactor: a term of its own, nothing else is touched"
    assert site.factors(1, 2, 3) == [0, 0, 0]
    table = site.out("check").splitlines()
    assert table[0].split() == ["RESULT", "CHECK", "WHAT"]
    what = table[0].index("WHAT")
    assert all(line[what - 1] == " " != line[what] for line in table[1:]), "flush left"
    assert len(table) == 1 + len(found) <= 24


@pytest.mark.parametrize(
    ("release", "result"), [("22.05.8", "pass"), ("26.05.5", "pass"), ("21.08.1", "warn")]
)
def test_release(site: FakeSite, release: str, result: str) -> None:
    site.cluster.set(settings={"SLURM_VERSION": release})
    assert site.checks()["batch system"][0] == result


def test_weights(site: FakeSite) -> None:
    site.configure("hook", influence_hours=24)
    assert "weights" not in site.checks()
    site.cluster.change(3, factors={"age": 0, "assoc": 0, "fairshare": 90000, "size": 0, "qos": 0})
    assert site.checks()["weights"] == (
        "warn",
        "the daemon's order adds at most 1000 points, and the site's own priorities of the waiting "
        "jobs differ by 79688, so it moves few jobs: raise influence_hours",
    )
    assert site.checks()["influence"] == ("pass", "24 h of age: 1000 points")
    site.cluster.set(settings={"PriorityWeightAge": "0"})
    result, what = site.checks()["influence"]
    assert (result, "raise PriorityWeightAge" in what) == ("fail", True)


@pytest.mark.parametrize(
    ("ahead", "result"), [(0, "pass"), (-1, "pass"), (9, "warn"), (-9, "warn"), (400, "fail")]
)
def test_clock(site: FakeSite, ahead: int, result: str) -> None:
    site.cluster.set(load={"ahead": ahead})
    found, what = site.checks()["clock"]
    assert found == result
    assert (result == "pass") or "NTP" in what


def test_accounting(site: FakeSite) -> None:
    site.cluster.break_command("sacct", "fail:Slurm accounting storage is disabled")
    result, what = site.checks()["accounting"]
    assert (result, "only reports need it" in what) == ("warn", True)
    site.configure("policy", model="default")
    result, what = site.checks()["accounting"]
    assert (result, "without past runs" in what) == ("fail", True)
    site.configure("batch_system", history_days=0)
    assert site.checks()["accounting"][0] == "warn"


def test_federation(site: FakeSite) -> None:
    job = (1 << 26) + 1
    site.cluster.add(job, siblings=("1", "1,2"))
    site.cluster.set(federation=["Federation: fed", "Self: x:h:1 ID:1", "Sibling:  y:h:2 ID:2"])
    result, what = site.checks()["federation"]
    assert (result, what.startswith("in a federation with y: 1 of 4")) == ("warn", True)
    site.cluster.set(federation=["Federation: fed", "Self: x:h:1 ID:1"])
    assert "federation" not in site.checks()


def test_other_writer(site: FakeSite) -> None:
    site.cluster.change(2, site=7)
    result, what = site.checks()["other writer"]
    assert (result, "SiteFactor of 1 of 3 waiting jobs (job 2 first)" in what) == ("warn", True)
    StateFile(site.state_file).write([2])
    assert "other writer" not in site.checks()


def test_exemptions(site: FakeSite) -> None:
    site.cluster.set(partition_lines=["PartitionName=batch Nodes=ALL", "PartitionName=gpu"])
    assert "exemptions" not in site.checks()
    site.configure("guard_rails", exempt_accounts=["physics"], exempt_partitions=["gpu"])
    known = "account, partition: all names are known here"
    assert site.checks()["exemptions"] == ("pass", known)
    site.configure("guard_rails", exempt_accounts=["Physics"], exempt_qos=["normal", "fast"])
    assert site.checks()["exemptions"] == (
        "warn",
        "there is no account Physics, QOS fast here, so no job is exempt by it: "
        "write [guard_rails] exempt_* as the batch system does",
    )


def test_exemptions_by_names_that_nobody_can_tell_are_not_judged(site: FakeSite) -> None:
    site.configure("guard_rails", exempt_partitions=["gpu"], exempt_qos=["fast"])
    site.cluster.break_command("sacctmgr", "fail:no accounting here")
    assert "exemptions" not in site.checks()


def test_resources(site: FakeSite) -> None:
    assert site.checks()["resources"] == ("pass", "slurm.conf counts processors alone")
    counted = {"SelectTypeParameters": "CR_CORE_MEMORY", "GresTypes": "gpu"}
    one = {"name": "g1", "cpus": "0/8/0/8", "partitions": ["batch"], "memory": 64000}
    nodes = [{**one, "gres": "gpu:a100:4"}, {**one, "name": "g2", "gres": "gpu:v100:2"}]
    site.cluster.set(settings=counted, nodes=nodes[:1])
    told = "of usable nodes (memory in MiB): cpus 8, memory 64000, gpus 4, gres/gpu:a100 4"
    assert site.checks()["resources"] == ("pass", told)
    site.cluster.set(nodes=nodes)
    result, what = site.checks()["resources"]
    assert (result, "no type of gres/gpu:a100, gres/gpu:v100" in what) == ("warn", True)
    tracked = "cpu,mem,gres/gpu,gres/gpu:a100,gres/gpu:v100"
    site.cluster.set(settings={**counted, "AccountingStorageTRES": tracked})
    assert site.checks()["resources"][0] == "pass"
    site.cluster.set(nodes=[{**one, "gres": "gpu:a:b:c:1"}])
    result, what = site.checks()["resources"]
    assert (result, "processors alone count" in what) == ("warn", True)


def test_shares(site: FakeSite) -> None:
    site.configure("shares", physics=0.7, biology=0.3)
    assert site.checks()["shares"] == ("pass", "all 2 accounts are Slurm's too")
    site.configure("shares")
    site.configure("shares", physics=1.0)
    assert site.checks()["shares"] == ("warn", "not in [shares], so with share 0: biology")
    site.configure("shares", physics=0.5, fysics=0.5)
    result, what = site.checks()["shares"]
    assert (result, "called fysics" in what) == ("fail", True)
    site.configure("shares")
    site.cluster.set(shares=[["root", "", "", "0"]])
    assert site.checks()["shares"][0] == "warn"
    site.cluster.break_command("sshare", "garbage")
    assert site.checks()["batch system"][0] == "fail"


@pytest.fixture
def served(site: FakeSite) -> int:
    metrics = CycleMetrics(CollectorRegistry(), {"name": "sjf"})
    metrics.update(state_file=str(site.state_file.resolve()))
    return serve_metrics(metrics, "127.0.0.1", 0)


def test_metrics_port(site: FakeSite, served: int) -> None:
    assert site.checks()["metrics port"][1].endswith("is free")
    site.configure("metrics", port=served)
    assert site.checks()["metrics port"] == ("pass", f"{served}: the daemon answers there")
    site.configure("metrics", port=0)
    assert site.checks()["metrics port"][0] == "warn"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        site.configure("metrics", port=other.getsockname()[1])
        result, what = site.checks()["metrics port"]
    assert (result, "set [metrics] port to another" in what) == ("fail", True)
    site.configure("metrics", port=served, address="192.0.2.1")
    assert site.checks()["metrics port"][0] == "fail"


def test_what_the_metrics_name_can_be_used_or_no_daemon_starts(site: FakeSite) -> None:
    nowhere = str(site.folder / "nowhere.pem")
    site.configure(
        "metrics", tls_certificate=nowhere, tls_key=nowhere, textfile="/tmp/slurm_rl.txt"
    )
    found = site.checks()
    assert found["metrics tls"][0] == found["metrics textfile"][0] == "fail"
    assert "nowhere.pem" in found["metrics tls"][1]
    assert "ends in .prom" in found["metrics textfile"][1]


def test_reward(site: FakeSite, caplog: pytest.LogCaptureFixture) -> None:
    assert site.checks()["reward"][1].startswith("a rule has no reward")
    site.configure("policy", model="default")
    assert site.checks()["reward"] == ("pass", "the model was trained for the weights of [reward]")
    site.configure("goals", short_jobs=2.0)
    assert site.checks()["reward"] == ("pass", "the model was trained for the weights of [reward]")
    site.configure("reward", slowdown=0.0, tail=0.1)
    result, what = site.checks()["reward"]
    assert (result, "trained with tail = 2, slowdown = 10" in what) == ("fail", True)
    assert site("run", "--once")[0] == 0
    assert any(said.startswith("reward=differs configured=") for said in caplog.messages)
    export_network(small_network(), site.folder / "mute.onnx", {"estimates": "requested"})
    site.configure("policy", model=f"{site.folder}/mute.onnx")
    assert site.checks()["reward"][0] == "warn"


def test_decision_time_on_as_many_jobs_as_asked_for(site: FakeSite) -> None:
    site.configure("policy", model="default")
    result, what = site.checks()["decision time"]
    assert (result, " s for 1000 jobs, allowed 2 s" in what) == ("pass", True)
    assert " s for 3000 jobs" in site.checks("--jobs", "3000")["decision time"][1]
    site.configure("policy", inference_deadline=0.001)
    assert site.checks("--jobs", "20000")["decision time"][0] == "fail"


def test_decision_time_near_the_deadline_warns(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_rl_plugin.services import checks as model_checks  # noqa: PLC0415

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            self.now += 1.5
            return self.now

    monkeypatch.setattr(model_checks, "time", Clock())
    assert site.checks()["decision time"][0] == "warn"


def test_disable_file(site: FakeSite) -> None:
    assert site.checks()["disable_file"] == ("pass", "nothing is disabled")
    (site.folder / "DISABLE").touch()
    result, what = site.checks()["disable_file"]
    assert (result, "`slurm-rl enable` ends it" in what) == ("warn", True)
    site.configure("hook", disable_file=f"{site.folder}/none/DISABLE")
    assert site.checks()["disable_file"][0] == "warn"


def test_without_slurm_the_rest_is_checked(site: FakeSite) -> None:
    site.cluster.break_command("scontrol", "down")
    found = site.checks()
    assert found["batch system"][0] == "fail"
    assert found["metrics port"][0] == found["reward"][0] == "pass"


def test_a_site_without_offers_has_no_check_of_them(site: FakeSite) -> None:
    site.configure("offer", token_file=f"{site.folder}/token")
    assert "offer token" in site.checks()
    site.configure("offer")
    assert not [name for name in site.checks() if name.startswith("offer")]


def test_offers_want_a_token_a_free_port_and_a_will_run_test(site: FakeSite) -> None:
    token = site.folder / "token"
    token.write_text("t" * 64)
    token.chmod(0o640)
    site.configure("offer", token_file=str(token), port=0)
    found = {
        name: result for name, (result, _) in site.checks().items() if name.startswith("offer")
    }
    assert found == dict.fromkeys(("offer token", "offer tls", "offer port", "offer test"), "pass")
    token.chmod(0o644)
    assert site.checks()["offer token"][0] == "warn"
    token.write_text("short")
    assert site.checks()["offer token"][0] == "fail"
    words = "Invalid account or account/partition combination specified"
    site.cluster.set(wait=words)
    result, what = site.checks()["offer test"]
    assert (result, words in what, "[offer] account" in what) == ("fail", True, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        site.configure("offer", port=taken.getsockname()[1])
        assert site.checks()["offer port"][0] == "warn"
    site.configure("offer", tls_certificate=str(token), tls_key=str(token))
    assert site.checks()["offer tls"][0] == "fail"
    site.configure(
        "offer", utility_model=str(write_site_utility_model(site.folder / "utility.onnx"))
    )
    assert site.checks()["offer utilities"][0] == "pass"
    site.configure("offer", utility_model=str(token), forward_hops=1)
    assert site.checks()["offer utilities"][0] == "fail"
    sites = site.folder / "sites.toml"
    site.configure("route", sites_file=str(sites))
    result, what = site.checks()["offer forwarding"]
    assert (result, "names no site" in what) == ("fail", True)
    sites.write_text(f'[[site]]\nname = "far"\nurl = "https://far"\ntoken_file = "{token}"\n')
    assert site.checks()["offer forwarding"][0] == "pass"
