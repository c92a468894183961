"""What the verbs say and do of the reserve, on a fake Slurm: check, status, queue, explain, run."""

from __future__ import annotations

import json
import os
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.configuration import Configuration, read_configuration
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.services import checks
from slurm_rl_plugin.services.hook import build_cycle, load_policy
from tests.architecture.markdown_documents import TOP, code_blocks
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.running_daemon import free_port
from tests.functional.typed import Typed

#: Usable processors of the fake cluster.
CAPACITY = 8
#: Terms of the priority of a job.
FACTORS = {"age": 0, "assoc": 0, "fairshare": 0, "size": 312, "qos": 0}
EXAMPLES = [
    block.text for block in code_blocks(TOP / "docs" / "reserve.md") if block.kind == "toml"
]


class Site:
    """A fake cluster with an interactive job and two batch jobs, and a configuration."""

    def __init__(self, folder: Path, cluster: FakeCluster, typed: Typed) -> None:
        self.folder, self.cluster, self.typed = folder, cluster, typed
        self.out = self.err = ""
        now = int(time.time())  # noqa: TID251 - the clock of the commands
        cluster.set(now=now)
        fresh = {"submit": now - 9, "eligible": now - 9}
        cluster.add(1, **fresh, time_limit="1:00", state="RUNNING", start=now - 5, nodes="n1")
        cluster.add(2, **fresh, qos="batch", licenses="slot:1")
        cluster.add(3, **fresh, qos="batch", licenses="slot:1")
        self.port = free_port()
        self.hook: dict[str, Any] = {"mode": "active", "influence_hours": 0}
        self.reserve: dict[str, Any] = {
            "mechanism": "qos",
            "qos": "batch",
            "most_processors": 4,
        }
        self.model = "reserve:3"
        self.others: dict[str, Any] = {}

    @property
    def limits_file(self) -> Path:
        return self.folder / "state.json.limits"

    @property
    def cpu(self) -> int | None:
        found: int | None = self.cluster.state["qos"]["batch"]["cpu"]
        return found

    def configured(self) -> Configuration:
        assert self.run("show-config") == 0  # writes it
        return read_configuration(self.folder / "site.toml")

    def run(self, *words: str) -> int:
        hook = {
            "disable_file": f"{self.folder}/DISABLE",
            "state_file": f"{self.folder}/state.json",
            "audit_file": f"{self.folder}/audit.jsonl",
            **self.hook,
        }
        sections = {
            "hook": hook,
            "policy": {"model": self.model},
            "metrics": {"port": self.port},
            "reserve": self.reserve,
            **self.others,
        }
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in keys.items())
            for name, keys in sections.items()
        )
        text += '[[job_class]]\nclass = "interactive"\ntime_limit_at_most = 60\n'
        (self.folder / "site.toml").write_text(text)
        status, self.out, self.err = self.typed(*words, "--config", f"{self.folder}/site.toml")
        return status

    @property
    def document(self) -> Any:
        """Of the last verb."""
        return json.loads(self.out)

    @property
    def limits_audited(self) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.folder / "audit.jsonl").read_text().splitlines())
        return [line for line in lines if line["event"] in ("limit", "would_limit")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Site:
    cluster = FakeCluster(tmp_path)
    cluster.enter(monkeypatch)
    return Site(tmp_path, cluster, typed)


class TestRun:
    def test_a_cycle_limits_audits_and_release_takes_it_back(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        assert site.cpu == CAPACITY - 1 - 3
        (line,) = site.limits_audited
        assert {key: line[key] for key in ("event", "mode", "reason", "change", "old", "new")} == {
            "event": "limit",
            "mode": "active",
            "reason": "kept",
            "change": "lowered",
            "old": None,
            "new": 4,
        }
        assert site.run("release") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)

    def test_beside_a_bounded_order_an_interactive_job_goes_before_the_batch_jobs(
        self, site: Site
    ) -> None:
        """The site puts it 100,000 points behind them, and the first place adds far fewer."""
        site.hook["influence_hours"] = 24
        for job in (2, 3):
            site.cluster.change(job, factors={**FACTORS, "qos": 100_000})
        now = site.cluster.state["now"]
        site.cluster.add(4, submit=now, eligible=now, time_limit="1:00", factors=FACTORS)
        assert site.run("run", "--once") == 0
        written = {job["job_id"]: job["site"] for job in site.cluster.state["jobs"]}
        assert written[4] > 100_000 + max(written[2], written[3])
        assert min(written[2], written[3]) > 0
        assert max(written[2], written[3]) < 24 * 1000  # as without the reserve

    def test_shadow_mode_only_says_what_it_would_do(self, site: Site) -> None:
        site.hook["mode"] = "shadow"
        assert site.run("run", "--once") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)
        (line,) = site.limits_audited
        assert (line["event"], line["new"]) == ("would_limit", 4)

    def test_shadow_mode_takes_an_earlier_limit_back(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        site.hook["mode"] = "shadow"
        assert site.run("run", "--once") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)

    def test_turned_off_it_is_taken_back(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        site.reserve["mechanism"] = "off"
        assert site.run("run", "--once") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)

    def test_in_fallback_nothing_is_kept_free(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        model = site.folder / "broken.onnx"
        model.write_text("no model")
        site.model = str(model)
        assert site.run("run", "--once") == 0
        assert site.cpu is None
        # an empty audit of changes: the first cycle of a daemon does not know of the limit
        assert site.limits_file.exists() is False

    def test_the_queue_is_ordered_though_nothing_can_be_limited(self, site: Site) -> None:
        site.cluster.break_command("sacctmgr", "deny")
        assert site.run("run", "--once") == 0
        assert site.cpu is None
        assert any(json.loads(line)["event"] == "cycle" for line in _audit(site))


def _audit(site: Site) -> list[str]:
    return (site.folder / "audit.jsonl").read_text().splitlines()


class TestRelease:
    def test_the_watchdog_takes_a_limit_back_without_any_factor(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        StateFile(site.folder / "state.json").write(set())
        assert site.run("release", "--unattended") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)

    def test_the_watchdog_leaves_a_running_daemon_its_limit(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        with only_daemon(site.folder / "state.json"):
            assert site.run("release", "--unattended") == 0
        assert site.cpu == 4

    def test_a_limit_that_stays_is_an_error_and_factors_go_all_the_same(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        site.cluster.break_command("sacctmgr", "fail:Sending PersistInit msg: Connection refused")
        assert site.run("release", "--unattended") == 1
        said = site.err
        assert "a limit of the daemon on batch jobs may be outstanding: slurmdbd" in said
        assert StateFile(site.folder / "state.json").read() == set()
        site.cluster.set(modes={})
        assert site.run("release", "--unattended") == 0
        assert site.cpu is None

    def test_even_a_faulty_configuration_does_not_keep_it(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        site.reserve["most_processors"] = "many"
        assert site.run("release", "--unattended") == 0
        assert (site.cpu, site.limits_file.exists()) == (None, False)


class TestVerbsThatLook:
    def test_queue_and_explain_tell_the_limit(self, site: Site) -> None:
        assert site.run("queue", "--json") == 0
        document = site.document
        assert document["reserve"] == 3
        assert document["batch_limit"] == {
            "processors": 4,
            "resources": {},
            "reason": "kept",
        }
        assert "batch jobs may use 4 processors together" in site.err
        assert site.run("explain", "2") == 0
        words = "Reserve: batch jobs may use 4 processors together: processors are kept free for"
        assert f"{words} interactive jobs. This job is one of them." in site.out
        site.reserve = {}
        assert site.run("explain", "2") == 0
        assert "Reserve:" not in site.out

    def test_status_names_a_limit_that_nobody_looks_after(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        assert site.run("status", "--json") == 1
        document = site.document
        assert document["outstanding"]["batch_limit"]
        assert any("a limit of the daemon on batch jobs" in each for each in document["problems"])

    def test_who_may_not_enter_the_folder_is_told_what_can_be(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = Path.stat

        def refuse(path: Path, **words: bool) -> os.stat_result:
            if path == site.limits_file:
                raise PermissionError(13, "Permission denied")
            return found(path, **words)

        monkeypatch.setattr(Path, "stat", refuse)
        assert site.run("status", "--json") == 1
        assert site.document["outstanding"]["batch_limit"]  # or it is not known

    def test_disable_waits_for_the_limit_too(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        assert site.run("disable", "--wait", "0") == 1
        assert "a limit of the daemon on batch jobs may be outstanding" in site.out


def check(site: Site) -> dict[str, tuple[str, str]]:
    status = site.run("check", "--json", "--jobs", "10")
    checks = site.document["checks"]
    found = {each["name"]: (each["result"], each["what"]) for each in checks}
    assert len(found) == len(checks)
    assert status == int(any(result == "fail" for result, _ in found.values()))
    return {name: each for name, each in found.items() if name.startswith(("reserve", "outst"))}


class TestWhoMayUseIt:
    def flood(self, site: Site) -> None:
        """Five interactive jobs of alice, in addition to a running one: 4 x 0.33 is 2 of hers."""
        now = site.cluster.state["now"]
        for job in range(4, 9):
            site.cluster.add(job, submit=now, eligible=now, time_limit="1:00")

    def test_explain_says_why_a_job_counts_as_batch(self, site: Site) -> None:
        self.flood(site)
        assert site.run("explain", "8") == 0
        said = site.out
        assert "Class: batch, by the rule: interactive if time_limit_at_most=60" in said
        assert (
            "It counts as batch: with it, interactive jobs of its user would hold more than 2 "
            "processors of the reserve ([reserve] user_share)." in said
        )
        assert "This job is ordered as one of them." in said  # the QOS does not limit it
        assert site.run("explain", "4") == 0
        assert "counts as batch" not in site.out

    def test_the_queue_shows_the_class_that_counts(self, site: Site) -> None:
        self.flood(site)
        assert site.run("queue", "--json") == 0
        classes = {each["jobid"]: each["class"] for each in site.document["jobs"]}
        assert [job for job, name in classes.items() if name == "interactive"] == [4]

    def test_1_turns_it_off(self, site: Site) -> None:
        self.flood(site)
        site.reserve |= {"user_share": 1, "account_share": 1}
        assert site.run("explain", "8", "--json") == 0
        document = site.document
        assert (document["class"], document["as_batch"]) == ("interactive", None)
        assert check(site)["reserve size"][1] == "4 of 8 processors at most"

    def test_explain_says_until_when_a_users_limits_do_not_count(self, site: Site) -> None:
        """Four of five jobs that the daemon saw end were ended by their limits."""
        now = site.cluster.state["now"]
        began = {"start": now - 70, "nodes": "n1", "end": now}
        for job in range(10, 15):
            site.cluster.add(job, time_limit="1:00", state="RUNNING", **began)
        configuration = site.configured()
        cycle = build_cycle(configuration, load_policy(site.model))
        cycle.run()
        for job in range(10, 15):
            site.cluster.change(job, state="TIMEOUT" if job > 10 else "COMPLETED")
        assert cycle.run().overrunners == 1
        cycle.remember()
        site.cluster.add(20, submit=now, eligible=now, time_limit="1:00")
        assert site.run("explain", "20") == 0
        said = site.out
        assert "Class: batch, by the rule: interactive if time_limit_at_most=60" in said
        assert "It counts as batch until 20" in said
        assert ": 4 of its user's 5 interactive jobs were ended by their time limit." in said

    def test_check_says_what_one_may_hold(self, site: Site) -> None:
        what = "4 of 8 processors at most; 2 for one account, 2 for one user"
        what += ", further jobs are ordered as batch"
        assert check(site)["reserve size"] == ("pass", what)


class TestCheck:
    @pytest.mark.parametrize("text", EXAMPLES)
    def test_the_examples_of_the_documents_pass(self, site: Site, text: str) -> None:
        """On the fake cluster's processors, with the default influence."""
        example = tomllib.loads(text)
        assert example.keys() in ({"reserve"}, {"policy", "reward", "reserve"})
        site.reserve = example["reserve"]
        site.model = example.get("policy", {"model": "default"})["model"]
        site.others = {"reward": example["reward"]} if "reward" in example else {}
        del site.hook["influence_hours"]
        site.cluster.set(tres=["mem", "gres/gpu"])
        site.run("check", "--json", "--jobs", "10")
        found = {each["name"]: each["result"] for each in site.document["checks"]}
        assert found["reward"] == "pass"
        assert {name: each for name, each in found.items() if each == "fail"} == {}

    def test_all_is_well(self, site: Site) -> None:
        found = check(site)
        assert {result for result, _ in found.values()} == {"pass"}, found
        assert len(found) == 8
        assert site.cpu is None

    def test_all_is_well_with_licences(self, site: Site) -> None:
        site.reserve["mechanism"] = "licenses"
        found = check(site)
        assert {result for result, _ in found.values()} == {"pass"}, found
        assert site.cluster.state["reservations"] == {}

    @pytest.mark.parametrize(
        ("change", "name", "result", "words"),
        [
            (
                {"settings": {"AccountingStorageEnforce": "associations"}},
                "reserve limits",
                "fail",
                "set AccountingStorageEnforce=associations,limits,qos in slurm.conf",
            ),
            ({"qos": {}}, "reserve QOS", "fail", "sacctmgr add qos batch"),
            (
                {"qos": {"batch": {"cpu": 6, "live": 6, "others": ""}}},
                "reserve QOS",
                "warn",
                "GrpTRES=cpu=6 already",
            ),
            (
                {"associations": [["trial", "batch"], ["other", "normal,batch"]]},
                "reserve clusters",
                "fail",
                "QOS of other too",
            ),
            ({"modes": {"sacctmgr": "deny"}}, "reserve right", "fail", "Administrator"),
        ],
    )
    def test_each_precondition_of_a_qos_has_its_mend(
        self, site: Site, change: dict[str, Any], name: str, result: str, words: str
    ) -> None:
        site.cluster.set(**change)
        found = check(site)
        # sacctmgr that denies everything is a failure before the right itself is tried
        name = name if name in found else "reserve"
        assert found[name][0] == result
        assert words in found[name][1]

    def test_the_jobs_must_have_the_qos(self, site: Site) -> None:
        site.cluster.change(2, qos="normal")
        assert check(site)["reserve jobs"][0] == "warn"
        site.cluster.change(3, qos="normal")
        result, what = check(site)["reserve jobs"]
        assert (result, what.partition(":")[0]) == ("fail", "no batch job has QOS batch")
        site.cluster.change(1, qos="batch")
        result, what = check(site)["reserve jobs"]
        assert (result, "interactive jobs have QOS batch" in what) == ("fail", True)

    def test_numbers_and_policies_that_ask_for_none(self, site: Site) -> None:
        site.model = "sjf"
        site.reserve["most_processors"] = CAPACITY
        found = check(site)
        what = f"sjf asks for no number: {CAPACITY} processors are kept free"
        assert found["reserve policy"] == ("pass", what)
        assert found["reserve size"][0] == "warn"

    def test_the_reserve_works_beside_any_influence(self, site: Site) -> None:
        site.hook["influence_hours"] = 24
        assert {result for result, _ in check(site).values()} == {"pass"}

    def test_turned_off_while_a_limit_stands(self, site: Site) -> None:
        assert site.run("run", "--once") == 0
        site.reserve = {}
        result, what = check(site)["outstanding"]
        assert (result, "slurm-rl release" in what) == ("fail", True)

    def test_licences_as_many_as_processors(self, site: Site) -> None:
        site.reserve["mechanism"] = "licenses"
        site.cluster.set(licenses={"slot": 7})
        assert check(site)["reserve licences"][0] == "warn"
        site.cluster.set(licenses={})
        result, what = check(site)["reserve licences"]
        assert (result, "add Licenses=slot:N" in what) == ("fail", True)
        site.cluster.set(licenses={"slot": 8})
        site.cluster.break_command("scontrol", "deny")
        found = check(site)
        assert "AdminLevel=Operator" in found["reserve right"][1]


@pytest.mark.parametrize(
    ("reserve", "words"),
    [
        ({"mechanism": "qos", "most_processors": 4}, '"qos" needs qos'),
        ({"mechanism": "qos", "qos": "batch"}, "needs most_processors"),
        ({"mechanism": "max_run_res", "most_processors": 4}, "needs queues"),
        ({"mechanism": "qos", "qos": "a,b", "most_processors": 4}, "must be one name"),
        (
            {
                "mechanism": "qos",
                "qos": "batch",
                "most_processors": 4,
                "lift_hours": 0,
                "idle_minutes": 0,
            },
            "a wide batch job might never start",
        ),
    ],
)
def test_faults_of_the_section_name_the_mend(
    site: Site, reserve: dict[str, Any], words: str
) -> None:
    site.reserve = reserve
    assert site.run("run", "--once") == 2
    assert words in site.err


@pytest.mark.parametrize("left", ["factors", "batch_limit"])
def test_every_command_agrees_on_what_is_outstanding(site: Site, left: str) -> None:
    """Each entry of the list by itself: no command says that all is well where another fails."""
    assert site.run("run", "--once") == 0
    if left == "factors":
        site.limits_file.unlink()
    else:
        StateFile(site.folder / "state.json").write(set())
        for job in (2, 3):
            site.cluster.change(job, site=0)
    assert site.run("status", "--json") == 1
    outstanding = site.document["outstanding"]
    assert {name for name, words in outstanding.items() if words} == {left}
    assert site.run("check", "--json", "--jobs", "10") == 1
    rows = {each["name"]: each for each in site.document["checks"]}
    assert rows["outstanding"]["result"] == "fail"
    assert outstanding[left] in rows["outstanding"]["what"]
    assert site.run("disable", "--wait", "0") == 1
    assert outstanding[left] in site.out
    assert site.run("release", "--unattended") == 0
    assert site.run("status", "--json") == 0
    assert set(site.document["outstanding"].values()) == {None}
    assert site.run("disable", "--wait", "0") == 0


@pytest.mark.parametrize(
    ("runs", "beside_controllers", "result"),
    [(True, False, "pass"), (False, False, "fail"), (None, False, "warn"), (False, True, "warn")],
)
def test_check_tells_whether_a_daemon_restores_it(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    runs: bool | None,
    beside_controllers: bool,
    result: str,
) -> None:
    assert site.run("run", "--once") == 0
    site.hook["beside_controllers"] = beside_controllers
    configuration = site.configured()
    monkeypatch.setattr(checks, "daemon_runs", lambda _: runs)
    found = checks.outstanding_of(configuration)
    assert found.result == result
