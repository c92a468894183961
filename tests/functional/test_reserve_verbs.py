"""What the verbs say and do of the reserve, on a fake Slurm: check, status, queue, explain, run."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.services import checks
from slurm_rl_plugin.services.hook import build_cycle, load_policy
from tests.architecture.markdown_documents import TOP, code_blocks
from tests.case_files import known, rows
from tests.fakes.running_daemon import free_port
from tests.functional.fake_site import Checks, FakeSite

#: Usable processors of the fake cluster.
CAPACITY = 8
#: Terms of the priority of a job.
FACTORS = {"age": 0, "assoc": 0, "fairshare": 0, "size": 312, "qos": 0}
EXAMPLES = [
    block.text
    for page in ("reserve.md", "research/responsive-reserve.md")
    for block in code_blocks(TOP / "docs" / page)
    if block.kind == "toml"
]


class ReserveSite(FakeSite):
    """An interactive job, two batch jobs, and a limit on batch jobs of half of the processors."""

    @property
    def limits_file(self) -> Path:
        return self.folder / "state.json.limits"

    @property
    def cpu(self) -> int | None:
        found: int | None = self.cluster.state["qos"]["batch"]["cpu"]
        return found

    @property
    def has_no_limit(self) -> bool:
        return self.cpu is None and not self.limits_file.exists()

    def reserve_checks(self) -> Checks:
        found = self.checks("--jobs", "10")
        return {name: found[name] for name in found if name.startswith(("reserve", "outst"))}


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> ReserveSite:
    site = ReserveSite(tmp_path, monkeypatch, capsys)
    site.wait(1, 9, time_limit="1:00", state="RUNNING", start=site.now - 5, nodes="n1")
    for job in (2, 3):
        site.wait(job, 9, qos="batch", licenses="slot:1")
    site.configure("metrics", port=free_port())
    site.configure("policy", model="reserve:3")
    site.configure("reserve", mechanism="qos", qos="batch", most_processors=4)
    site.append('[[job_class]]\nclass = "interactive"\ntime_limit_at_most = 60\n')
    return site


class TestRun:
    def test_a_cycle_limits_audits_and_release_takes_it_back(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        assert site.cpu == CAPACITY - 1 - 3
        (line,) = site.audited("limit", "would_limit")
        assert {key: line[key] for key in ("event", "mode", "reason", "change", "old", "new")} == {
            "event": "limit",
            "mode": "active",
            "reason": "kept",
            "change": "lowered",
            "old": None,
            "new": 4,
        }
        site.out("release")
        assert site.has_no_limit

    def test_beside_a_bounded_order_an_interactive_job_goes_before_the_batch_jobs(
        self, site: ReserveSite
    ) -> None:
        """The site puts it 100,000 points behind them, and the first place adds far fewer."""
        site.configure("hook", influence_hours=24)
        for job in (2, 3):
            site.cluster.change(job, factors={**FACTORS, "qos": 100_000})
        now = site.now
        site.cluster.add(4, submit=now, eligible=now, time_limit="1:00", factors=FACTORS)
        site.out("run", "--once")
        written = {job["job_id"]: job["site"] for job in site.cluster.state["jobs"]}
        assert written[4] > 100_000 + max(written[2], written[3])
        assert min(written[2], written[3]) > 0
        assert max(written[2], written[3]) < 24 * 1000  # as without the reserve

    def test_shadow_mode_only_says_what_it_would_do_and_takes_an_earlier_limit_back(
        self, site: ReserveSite
    ) -> None:
        site.configure("hook", mode="shadow")
        for mode in ("shadow", "active", "shadow"):
            site.configure("hook", mode=mode)
            site.out("run", "--once")
            assert site.has_no_limit is (mode == "shadow")
        (first, *_) = site.audited("limit", "would_limit")
        assert (first["event"], first["new"]) == ("would_limit", 4)

    def test_turned_off_it_is_taken_back(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        site.configure("reserve", mechanism="off")
        site.out("run", "--once")
        assert site.has_no_limit

    def test_in_fallback_nothing_is_kept_free(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        model = site.folder / "broken.onnx"
        model.write_text("no model")
        site.configure("policy", model=str(model))
        site.out("run", "--once")
        assert site.cpu is None
        # an empty audit of changes: the first cycle of a daemon does not know of the limit
        assert site.limits_file.exists() is False

    def test_the_queue_is_ordered_though_nothing_can_be_limited(self, site: ReserveSite) -> None:
        site.cluster.break_command("sacctmgr", "deny")
        site.out("run", "--once")
        assert site.cpu is None
        assert any(json.loads(line)["event"] == "cycle" for line in _audit(site))


def _audit(site: ReserveSite) -> list[str]:
    return (site.folder / "audit.jsonl").read_text().splitlines()


class TestRelease:
    def test_the_watchdog_leaves_a_running_daemon_its_limit(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        with only_daemon(site.state_file):
            site.out("release", "--unattended")
        assert site.cpu == 4

    def test_a_limit_that_stays_is_an_error_and_factors_go(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        site.cluster.break_command("sacctmgr", "fail:Sending PersistInit msg: Connection refused")
        status, _, said = site("release", "--unattended")
        assert status == 1
        assert "a limit of the daemon on batch jobs may be outstanding: slurmdbd" in said
        assert StateFile(site.state_file).read() == set()
        site.cluster.set(modes={})
        site.out("release", "--unattended")
        assert site.cpu is None

    def test_even_a_faulty_configuration_does_not_keep_it(self, site: ReserveSite) -> None:
        site.out("run", "--once")
        site.configure("reserve", most_processors="many")
        site.out("release", "--unattended")
        assert site.has_no_limit


class TestVerbsThatLook:
    def test_queue_and_explain_tell_the_limit(self, site: ReserveSite) -> None:
        document = site.json("queue", code=0)
        assert document["reserve"] == 3
        assert document["batch_limit"] == {
            "processors": 4,
            "resources": {},
            "reason": "kept",
        }
        assert "batch jobs may use 4 processors together" in site("queue")[2]
        out = site.out("explain", "2")
        words = "Reserve: batch jobs may use 4 processors together: processors are kept free for"
        assert f"{words} interactive jobs. This job is one of them." in out
        site.configure("reserve")
        assert "Reserve:" not in site.out("explain", "2")

    def test_who_may_not_enter_the_folder_is_told_what_can_be(
        self, site: ReserveSite, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = Path.stat

        def refuse(path: Path, **words: bool) -> os.stat_result:
            if path == site.limits_file:
                raise PermissionError(13, "Permission denied")
            return found(path, **words)

        monkeypatch.setattr(Path, "stat", refuse)
        assert site.json("status", code=1)["outstanding"]["batch_limit"]  # or it is not known


class TestWhoMayUseIt:
    def flood(self, site: ReserveSite) -> None:
        """Five interactive jobs of alice, in addition to a running one: 4 x 0.33 is 2 of hers."""
        now = site.now
        for job in range(4, 9):
            site.cluster.add(job, submit=now, eligible=now, time_limit="1:00")

    def test_explain_says_why_a_job_counts_as_batch(self, site: ReserveSite) -> None:
        self.flood(site)
        said = site.out("explain", "8")
        assert "Class: batch, by the rule: interactive if time_limit_at_most=60" in said
        assert (
            "It counts as batch: with it, interactive jobs of its user would hold more than 2 "
            "processors of the reserve ([reserve] user_share)." in said
        )
        assert "This job is ordered as one of them." in said  # the QOS does not limit it
        assert "counts as batch" not in site.out("explain", "4")

        classes = {each["jobid"]: each["class"] for each in site.json("queue")["jobs"]}
        assert [job for job, name in classes.items() if name == "interactive"] == [4]

    def test_1_turns_it_off(self, site: ReserveSite) -> None:
        self.flood(site)
        site.configure("reserve", user_share=1, account_share=1)
        document = site.json("explain", "8", code=0)
        assert (document["class"], document["as_batch"]) == ("interactive", None)
        whole = "4 of 8 processors at most"
        assert site.reserve_checks()["reserve size"] == ("pass", whole)
        site.configure("reserve", user_share=0.33, account_share=0.5)
        parts = "; 2 for one account, 2 for one user, further jobs are ordered as batch"
        assert site.reserve_checks()["reserve size"] == ("pass", f"{whole}{parts}")

    def test_explain_says_until_when_a_users_limits_do_not_count(self, site: ReserveSite) -> None:
        """Four of five jobs that the daemon saw end were ended by their limits."""
        now = site.now
        began = {"start": now - 70, "nodes": "n1", "end": now}
        for job in range(10, 15):
            site.cluster.add(job, time_limit="1:00", state="RUNNING", **began)
        configuration = read_configuration(site.folder / "site.toml")
        cycle = build_cycle(configuration, load_policy("reserve:3"))
        cycle.run()
        for job in range(10, 15):
            site.cluster.change(job, state="TIMEOUT" if job > 10 else "COMPLETED")
        assert cycle.run().overrunners == 1
        cycle.remember()
        site.cluster.add(20, submit=now, eligible=now, time_limit="1:00")
        said = site.out("explain", "20")
        assert "Class: batch, by the rule: interactive if time_limit_at_most=60" in said
        assert "It counts as batch until 20" in said
        assert ": 4 of its user's 5 interactive jobs were ended by their time limit." in said


class TestCheck:
    @pytest.mark.parametrize("text", EXAMPLES)
    def test_the_examples_of_the_documents_pass(self, site: ReserveSite, text: str) -> None:
        """On the fake cluster's processors, with the default influence."""
        example = tomllib.loads(text)
        assert example.keys() in ({"reserve"}, {"policy", "reward", "reserve"})
        site.configure("reserve")
        site.configure("reserve", **example["reserve"])
        site.configure("policy", model=example.get("policy", {"model": "default"})["model"])
        site.configure("reward", **example.get("reward", {}))
        site.configure("hook", influence_hours=72)
        site.cluster.set(tres=["mem", "gres/gpu"])
        checks = site.json("check", "--jobs", "10")["checks"]
        assert [each["result"] for each in checks if each["name"] == "reward"] == ["pass"]

    @pytest.mark.parametrize("mechanism", ["qos", "licenses"])
    def test_all_is_well_beside_any_influence(self, site: ReserveSite, mechanism: str) -> None:
        site.configure("reserve", mechanism=mechanism)
        for hours in (0, 24):
            site.configure("hook", influence_hours=hours)
            found = site.reserve_checks()
            assert {result for result, _ in found.values()} == {"pass"}, found
        assert (len(found) == 8) is (mechanism == "qos")
        assert site.cpu is None
        assert site.cluster.state["reservations"] == {}

    @rows("reserve", "preconditions", "change name result words")
    def test_each_precondition_has_its_mend(
        self, site: ReserveSite, change: dict[str, Any], name: str, result: str, words: str
    ) -> None:
        change = known(change, "mechanism", "jobs", "cluster")
        site.configure("reserve", mechanism=change.get("mechanism", "qos"))
        for job in known(change, "mechanism", "jobs", "cluster").get("jobs", []):
            site.cluster.change(**job)
        site.cluster.set(**change.get("cluster", {}))
        found = site.reserve_checks()[name]
        assert (found[0], words in found[1]) == (result, True)

    def test_numbers_and_policies_that_ask_for_none(self, site: ReserveSite) -> None:
        site.configure("policy", model="sjf")
        site.configure("reserve", most_processors=CAPACITY)
        found = site.reserve_checks()
        what = f"sjf asks for no number: {CAPACITY} processors are kept free"
        assert found["reserve policy"] == ("pass", what)
        assert found["reserve size"][0] == "warn"


@pytest.mark.parametrize("left", ["factors", "batch_limit"])
def test_every_command_agrees_on_what_is_outstanding(site: ReserveSite, left: str) -> None:
    """Each entry of the list by itself: no command says that all is well where another fails."""
    site.out("run", "--once")
    if left == "factors":
        site.limits_file.unlink()
    else:
        StateFile(site.state_file).write(set())
        for job in (2, 3):
            site.cluster.change(job, site=0)
    document = site.json("status", code=1)
    outstanding = document["outstanding"]
    assert any(outstanding[left] in each for each in document["problems"])
    assert {name for name, words in outstanding.items() if words} == {left}
    result, what = site.reserve_checks()["outstanding"]
    assert (result, outstanding[left] in what, "slurm-rl release" in what) == ("fail", True, True)
    status, out, _ = site("disable", "--wait", "0")
    assert (status, outstanding[left] in out) == (1, True)
    site.out("release", "--unattended")
    assert set(site.json("status")["outstanding"].values()) == {None}
    site.out("disable", "--wait", "0")


@pytest.mark.parametrize(
    ("runs", "beside_controllers", "result"),
    [(True, False, "pass"), (False, False, "fail"), (None, False, "warn"), (False, True, "warn")],
)
def test_check_tells_whether_a_daemon_restores_it(
    site: ReserveSite,
    monkeypatch: pytest.MonkeyPatch,
    runs: bool | None,
    beside_controllers: bool,
    result: str,
) -> None:
    site.out("run", "--once")
    site.configure("hook", beside_controllers=beside_controllers)
    configuration = read_configuration(site.folder / "site.toml")
    monkeypatch.setattr(checks, "daemon_runs", lambda _: runs)
    assert checks.outstanding_of(configuration)[0] == result
