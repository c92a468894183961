"""`queue`, `explain`, `status` and `audit` over the fake Slurm: they look and change nothing."""

from __future__ import annotations

import gzip
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.experiment.turns import OVER, RUNNING, ExperimentFiles, ExperimentStanding
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from slurm_rl_plugin.papers.switchback.clusters import declared
from slurm_rl_plugin.units import DAY
from tests.fakes.running_daemon import free_port
from tests.functional.fake_site import FakeSite
from tests.functional.small_site import small_network
from tests.functional.typed import asset, rows_of

#: Jobs that may be ordered: id -> time limit; 6 is an array.
ORDERED = {1: "50:00", 2: "40:00", 3: "30:00", 4: "20:00", 6: "5:00"}
HELD, DEPENDENT, BY_HAND, EXEMPT = 11, 12, 13, 14


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    """A queue with a job of every kind."""
    for job, limit in ORDERED.items():
        array = {"tasks": "1-4"} if job == 6 else {}
        empty_site.wait(job, 1000 - job, time_limit=limit, **array)
    empty_site.wait(HELD, 50, reason="JobHeldUser", eligible=None)
    empty_site.wait(DEPENDENT, 50, reason="Dependency", eligible=None)
    empty_site.wait(BY_HAND, 50, by_hand=50_000)
    empty_site.wait(EXEMPT, 50, account="biology", user="bob", partition="short")
    empty_site.configure("guard_rails", exempt_accounts=["biology"])
    return empty_site


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_the_queue_is_what_the_next_cycle_decides(site: FakeSite) -> None:
    jobs = site.json("queue")["jobs"]
    decided = [job["jobid"] for job in jobs if job["untouched"] is None]
    assert decided == [6, 4, 3, 2, 1]
    wanted = {job["jobid"]: job["newfactor"] for job in jobs}
    assert site("run", "--once")[0] == 0
    cycle = site.audited()[0]
    assert cycle["order"] == decided
    assert site.factors(*ORDERED) == [wanted[job] for job in ORDERED]
    after = site.json("queue")["jobs"]
    assert [job["jobid"] for job in after] == [job["jobid"] for job in jobs]
    assert [job["nowrank"] for job in after] == [job["rank"] for job in jobs]
    assert [job["siterank"] for job in after] == [job["siterank"] for job in jobs]


def test_ranks_count_every_job_that_can_start_and_name_why_one_is_untouched(site: FakeSite) -> None:
    jobs = {job["jobid"]: job for job in site.json("queue")["jobs"]}
    assert jobs[BY_HAND]["rank"] == jobs[BY_HAND]["siterank"] == 1
    assert jobs[EXEMPT]["siterank"] == 2  # its partition gives it more points
    assert [jobs[job]["siterank"] for job in ORDERED] == [3, 4, 5, 6, 7]
    assert {job: each["untouched"] for job, each in jobs.items() if each["untouched"]} == {
        HELD: "held",
        DEPENDENT: "not_eligible",
        BY_HAND: "admin_set",
        EXEMPT: "exempt_account",
    }
    assert jobs[HELD]["rank"] is None
    assert jobs[DEPENDENT]["rank"] is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-j", "6_2,1"), [6, 1]),
        (("-u", "bob"), [EXEMPT]),
        (("-A", "physics", "--limit", "2"), [BY_HAND, 6]),
        (("-p", "short,long"), [EXEMPT]),
        (("-j", "99"), []),
    ],
)
def test_the_queue_is_filtered(
    site: FakeSite, options: tuple[str, ...], expected: list[int]
) -> None:
    assert [job["jobid"] for job in site.json("queue", *options)["jobs"]] == expected


def test_chosen_fields_without_a_header_and_with_bars(site: FakeSite) -> None:
    _, out, _ = site("queue", "-j", "6,11", "-o", "RANK,jobid,timelimit", "-n", "--parsable2")
    assert out.splitlines() == ["3|6|00:05:00", "|11|00:10:00"]
    _, table, _ = site("queue", "-j", "6", "-o", "jobid,class")
    assert [line.split() for line in table.splitlines()] == [
        ["JOBID", "CLASS"],
        ["6", "interactive"],
    ]


@pytest.mark.parametrize(
    "verb", [("queue",), ("explain", "6"), ("explain", "6", "--json"), ("status",), ("audit",)]
)
@pytest.mark.parametrize("sees_history", [False, True])
def test_looking_changes_nothing(site: FakeSite, verb: tuple[str, ...], sees_history: bool) -> None:
    model = site.folder / "model.onnx"
    export_network(small_network(sees_history=sees_history), model, {})
    site.configure("policy", model=str(model))
    assert site("run", "--once")[0] == 0
    assert (site.folder / "state.json.memory").exists()
    before, calls = files(site.folder), site.cluster.state["scontrol_calls"]
    site(*verb)
    assert files(site.folder) == before
    assert site.cluster.state["scontrol_calls"] == calls


def test_a_look_works_beside_a_daemon(site: FakeSite) -> None:
    with only_daemon(site.state_file):
        assert site("queue")[0] == 0
        assert site("explain", "6")[0] == 0
        assert site.json("status", code=None)["daemon"] == "runs"
    assert site.json("status", code=None)["daemon"] == "absent"


def test_a_policy_that_cannot_be_used_is_said(site: FakeSite) -> None:
    (site.folder / "broken.onnx").write_bytes(b"no model")
    site.configure("policy", model=f"{site.folder}/broken.onnx")
    status, out, err = site("queue", "-n", "-o", "jobid")
    assert status == 0
    assert "cannot be read as ONNX" in err
    assert [int(job) for job in out.split()][2:7] == list(ORDERED)  # by submission
    assert "Our order puts the job at place" in site("explain", "6")[1]
    site.configure("policy", fallback="site")
    jobs = site.json("queue")["jobs"]
    assert [job["rank"] for job in jobs] == [job["siterank"] for job in jobs]
    told = site("explain", "6")[1]
    assert "The policy is not used" in told
    assert "The order is the site's: place" in told
    assert "Score" not in told
    assert "Guard rail" not in told


def test_an_experiment_is_told_beside_the_order_of_the_configured_model(site: FakeSite) -> None:
    files = ExperimentFiles(state_file=site.state_file)
    assert site.json("explain", "6")["experiment"] is None
    files.declare(declared(1, 2), ExperimentStanding(state=RUNNING, reason="", at=1.0))
    assert "an experiment runs, drawn against the site's order" in site("queue")[2]
    assert "An experiment runs" in site("explain", "6")[1]
    files.stand(ExperimentStanding(state=OVER, reason="it is over.", at=2.0))
    assert site("queue")[2] == ""
    files.declaration.write_text("no declaration")
    assert site("queue")[2] == ""


def test_an_unreachable_slurm_is_one_sentence_and_exit_code_1(site: FakeSite) -> None:
    for command in ("squeue", "sprio"):
        site.cluster.break_command(command, "down")
    for verb in (("queue",), ("explain", "6")):
        status, _, err = site(*verb)
        assert (status, err.count("\n")) == (1, 1)
        assert "scontrol ping" in err
    assert site.json("status", code=None)["slurm"]["reachable"] is False


class TestExplain:
    def test_a_task_of_an_array_under_a_rule(self, site: FakeSite) -> None:
        told = site.json("explain", "6_3")
        assert told["job"] == 6
        assert told["tasks"] == "1-4"
        assert told["class"] == "interactive"
        assert "time_limit_at_most" in told["class_rule"]
        in_account = {"in_account": 2, "of_account": 6}  # all but the first of all, biology's
        assert told["ranks"] == {"decided": 3, "site": 7, "now": 7, "of": 7, **in_account}
        assert told["features"] is None  # a rule has none
        assert told["run_time"] == {"estimate": 300.0, "kind": "requested", "predicted": None}
        assert told["terms"]["batch"]["fairshare"] == 10000
        assert told["account"]["share"] == pytest.approx(0.7)
        assert [each["job"] for each in told["neighbours"]] == [BY_HAND, EXEMPT, 6, 4, 3]
        assert told["write"]["old"] == 0 < told["write"]["new"]

    def test_an_array_waits_since_its_last_start_for_all_its_tasks(self, site: FakeSite) -> None:
        now = site.cluster.state["now"]
        site.cluster.change(6, tasks="3-42")
        site.cluster.add(7, array_id=6, tasks="2", state="RUNNING", start=now - 30, nodes="n1")
        out = site("explain", "6")[1]
        assert "Of its wait 00:00:3" in out
        assert "count: an array has waited since a task of it last started." in out
        assert "Its waiting tasks fill the machine 5 times." in out

    def test_features_of_a_model_and_what_each_adds(self, site: FakeSite) -> None:
        model = site.folder / "model.onnx"
        network = small_network(sees_history=True)
        export_network(network, model, {})
        site.configure("policy", model=str(model))
        told = site.json("explain", "6")
        features = {each["name"]: each for each in told["features"]}
        assert features["interactive"]["value"] == 1.0
        assert features["log_time_limit"]["effect"] != 0.0
        length = math.exp(features["log_run_time"]["value"])
        assert 60 <= length < 300  # it asks for five minutes
        assert told["run_time"]["predicted"]["counts_as"] == pytest.approx(length)
        column = network.schema.jobs.index("log_time_limit")
        linear = network.linear[column] / network.job_scale[column]
        points = linear * features["log_time_limit"]["value"]
        linear *= features["log_time_limit"]["value"] - network.job_mean[column]
        assert features["log_time_limit"]["linear"] == pytest.approx(linear, abs=1e-5)
        assert features["log_time_limit"]["points"] == pytest.approx(points, abs=1e-5)

    def test_run_times_and_points_of_the_shipped_order(self, site: FakeSite) -> None:
        site.configure("policy", model="default")
        told = site.json("explain", "6")["run_time"]["predicted"]
        assert list(told["quantiles"]) == ["0.1", "0.25", "0.5", "0.75", "0.9"]
        assert list(told["quantiles"].values()) == sorted(told["quantiles"].values())
        assert told["median"] == told["quantiles"]["0.5"]
        out = site.out("explain", "6")
        assert "of ten such runs eight last from" in out
        (line,) = [each for each in out.splitlines() if each.startswith("Points: ")]
        # ln(1 + 1000 / 14400) for the wait; the account has used 0.75 and has a share of 0.7
        assert line.startswith("Points: waited 00:16:")
        assert ": +0.1; " in line
        assert "its account's usage over its share: -1.6" in line  # 16 * log2(0.75 / 0.7)
        assert "counts as a run of 00:0" in line
        assert "processors" not in line  # one adds nothing
        site.configure("policy", model="sjf")
        assert "Points: " not in site.out("explain", "6")

    def test_goals_of_the_site_count_at_once(self, site: FakeSite) -> None:
        site.configure("policy", model="default")
        before = site.json("explain", "6")["score"]
        site.configure("goals", shares=0, interactive=5)
        gained = 5 + 16 * math.log2(0.75 / 0.7)  # its class, and no points lost for shares
        assert site.json("explain", "6")["score"] - before == pytest.approx(gained, abs=0.01)

    def test_why_a_job_is_untouched(self, site: FakeSite) -> None:
        for job, sentence in (
            (HELD, "it is held"),
            (DEPENDENT, "not eligible yet"),
            (BY_HAND, "set by hand"),
            (EXEMPT, "exempt_accounts"),
        ):
            out = site.out("explain", job)
            assert sentence in out
            assert "Score" not in out

    @rows_of("job and reason")
    def test_what_the_reason_means_and_what_our_order_adds(
        self, site: FakeSite, words: str, said: str
    ) -> None:
        job, reason = words.split()
        site.cluster.change(int(job), reason=reason)
        assert f"Reason {reason}: {said}\n" in site("explain", job)[1]

    def test_it_fits_one_screen_and_a_name_cannot_move_the_cursor(self, site: FakeSite) -> None:
        site.cluster.change(6, reason="Res\x1b[2Jources")
        assert site("run", "--once")[0] == 0
        out = site("explain", "6")[1]
        assert len(out.splitlines()) <= 40
        assert "\x1b" not in out
        assert "AUDIT" in out

    def test_a_starving_job_names_the_guard_rail(self, site: FakeSite) -> None:
        site.configure("guard_rails", starvation_hours=0.27725)  # 998.1 s: job 1 alone
        told = site.json("explain", "1")
        assert told["guard_rails"] == [
            {"rail": "starvation bound", "place_before": 5, "place_after": 1}
        ]
        assert "starvation bound: place 5" in site("explain", "1")[1]

    def test_a_job_that_waits_with_a_flag_of_slurm_in_place_of_pending(
        self, site: FakeSite
    ) -> None:
        """Slurm shows it until a released job starts whose reservation was deleted."""
        site.cluster.change(4, state="RESV_DEL_HOLD")
        told = site.json("explain", "4")
        assert (told["job"], told["ranks"]["decided"]) == (4, 4)

    @pytest.mark.parametrize(("policy", "weighs"), [("sjf", False), ("multifactor", True)])
    def test_whether_shares_have_any_weight(
        self, site: FakeSite, policy: str, weighs: bool
    ) -> None:
        site.configure("policy", model=policy)
        assert site.json("explain", "6")["account"]["weighs_share"] is weighs
        sentence = "share and usage have no weight in this model"
        assert (sentence in site("explain", "6")[1]) is not weighs

    def test_the_users_own_order_and_how_far_it_moved_the_job(self, site: FakeSite) -> None:
        said = "Your own order (nice) put it {} among your jobs."
        assert "Your own order" not in site("explain", "4")[1]
        site.cluster.change(4, nice=7)  # the second of five by its limit
        assert site.json("explain", "4")["own_order"] == 3
        assert said.format("3 places later") in site("explain", "4")[1]
        assert said.format("1 place earlier") in site("explain", "2")[1]
        assert "Your own order" not in site("explain", "6")[1]

    def keep_service(self, site: FakeSite, **kept: Any) -> None:
        path = site.folder / "state.json.service"
        path.write_text(json.dumps({"version": 1, **kept}))
        path.chmod(0o600)

    def test_the_lift_of_an_account_and_what_it_got(self, site: FakeSite) -> None:
        site.configure("policy", model="default")
        before = site.json("explain", "6")
        day, name = int(time.time() // DAY), before["account"]["name"]  # noqa: TID251
        service = {"seen": 8 * DAY, "service": {name: 41.0, "chemistry": 59.0}}
        self.keep_service(site, days={str(day): service}, lifts={"accounts": {name: 0.5}})
        told = site.json("explain", "6")
        assert told["account"]["lift"] == 0.5
        assert told["account"]["usage"] == before["account"]["usage"]
        assert told["score"] - before["score"] == pytest.approx(16 * 0.5, abs=0.01)
        ratio = told["account"]["ratio"]
        said = f"lifted by 0.5 doublings: it got {100 * ratio:.0f} % of its entitlement in 14 days"
        assert said in site.out("explain", "6")

    def test_the_lift_of_a_group_of_jobs(self, site: FakeSite) -> None:
        site.configure("policy", model="default")
        site.append('[guard]\nwait_hours = { "up to 15 min" = 1.0 }\n')
        before = site.json("explain", "6")
        self.keep_service(site, days={}, lifts={"groups": {"up to 15 min": 1.0}})
        told = site.json("explain", "6")
        assert (before["wait_counts"], told["wait_counts"]) == (1.0, 2.0)
        # ln(1 + 2000 / 14400) - ln(1 + 1000 / 14400), and 3 ln 2: it waits longest of all
        gained = 0.063 + 3 * math.log(2)
        assert told["score"] - before["score"] == pytest.approx(gained, abs=0.01)
        assert told["accrued"] == pytest.approx(before["accrued"], abs=5.0)
        assert "Its wait counts 2 times" in site("explain", "6")[1]

    def test_a_job_that_runs_or_that_nobody_knows(self, site: FakeSite) -> None:
        site.cluster.run_job(4)
        status, _, err = site("explain", "4")
        assert (status, "RUNNING" in err, "audit -j 4" in err) == (1, True, True)
        assert "not in the queue" in site.failing("explain", "4242")

    def test_what_could_not_be_read_is_said(self, site: FakeSite) -> None:
        told = site.json("explain", str(HELD))
        assert any("sprio lists no job" in each for each in told["not_read"])
        assert any("audit log" in each for each in told["not_read"])


class TestStatus:
    @pytest.mark.parametrize("mode", ["shadow", "active"])
    def test_a_site_without_its_daemon_is_not_well_unless_it_was_switched_off(
        self, site: FakeSite, mode: str
    ) -> None:
        site.configure("hook", mode=mode)
        assert "no daemon has run on this host yet: start it" in site.failing("status")
        with only_daemon(site.state_file):
            assert "all is well" in site.out("status")
        out = site.failing("status")
        assert f"(mode {mode}): start it with" in out
        assert "daemon: absent\n" in out
        assert "all is well" not in out
        (site.folder / "DISABLE").touch()
        out = site.out("status")
        assert "all is well" in out
        assert "daemon: absent (switched off by the disable file, as intended)" in out

    def test_the_page_shows_what_the_audit_log_knows(self, site: FakeSite) -> None:
        site("run", "--once")
        status, page, _ = site("status", "--html")
        assert status == 1  # factors are outstanding, and no daemon runs
        assert "no daemon runs" in page
        assert "It gained or lost if its rank differs" in page  # in active mode
        assert "<h2>Experiment</h2>\n<p>It is not known, since" in page
        for group in ("interactive", "account physics"):
            assert f'<th scope="row">{group}</th>' in page
        assert site("status", "--html", str(site.folder / "page.html"))[1] == ""
        assert "Who got their share" in (site.folder / "page.html").read_text()

    def test_factors_without_a_daemon(self, site: FakeSite) -> None:
        site("run", "--once")
        site.configure("hook", mode="shadow")
        told = site.json("status", code=None)
        assert told["slurm"]["with_factor"] > 0
        assert told["jobs_in_state_file"] >= told["slurm"]["with_factor"]
        assert any("slurm-rl release" in each for each in told["problems"])
        assert site("release")[0] == 0
        assert not any("release" in each for each in site.json("status", code=None)["problems"])

    @pytest.fixture
    def metrics(self, site: FakeSite) -> CycleMetrics:
        """What a daemon serves."""
        found = CycleMetrics(CollectorRegistry(), {"name": "sjf"})
        found.update(state_file=str(site.state_file.resolve()))
        site.configure("metrics", port=serve_metrics(found, "127.0.0.1", 0))
        return found

    def report(self, **values: Any) -> CycleReport:
        now = time.time()  # noqa: TID251 - the daemon's clock
        return CycleReport(**{"time": now, "mode": "active", "policy": "sjf", **values})

    def test_what_the_daemon_says(self, site: FakeSite, metrics: CycleMetrics) -> None:
        with only_daemon(site.state_file):
            metrics.publish(self.report(adjustments={"up": 3}))
            status, out, _ = site("status")
            assert (status, "cycles: 1, failed: 0, writes: 3" in out) == (0, True)
            metrics.publish(self.report(fallback_reason="late", mode="fallback"))
            assert "fallback is active" in site("status")[1]
            metrics.publish(self.report(failure="batch_system"))
            told = site.json("status", code=None)
            assert told["metrics"]["failures"] == {"batch_system": 1}
            assert any("last cycle failed" in each for each in told["problems"])
            metrics.publish(self.report(time=1000.0))
            assert "may hang" in site("status")[1]

    def test_another_daemon_does_not_answer_for_ours(
        self, site: FakeSite, metrics: CycleMetrics
    ) -> None:
        metrics.update(state_file="/srv/other.json", reserve=7)
        found = site.json("status", code=None)["metrics"]
        (said,) = found.values()
        assert f"has state file /srv/other.json, not {site.state_file.resolve()}" in said
        assert f"metrics: {said}\n" in site("status")[1]

    def test_no_answer_is_said_and_no_error(self, site: FakeSite) -> None:
        site.configure("metrics", port=free_port())
        site.configure("hook", mode="shadow")
        with only_daemon(site.state_file):
            status, out, _ = site("status")
        assert (status, "no daemon answers" in out) == (0, True)

    def test_a_refused_model_is_a_problem(self, site: FakeSite) -> None:
        site.configure("hook", mode="shadow")
        site.configure("policy", model=f"{site.folder}/missing.onnx")
        assert "missing.onnx cannot be read" in site.failing("status")


class TestAudit:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        """Three files: the oldest compressed, the newest with broken lines."""
        path = tmp_path / "audit.jsonl"
        lines = [self.line(minute) for minute in range(9)]
        (tmp_path / "audit.jsonl.2.gz").write_bytes(gzip.compress("".join(lines[:3]).encode()))
        (tmp_path / "audit.jsonl.1").write_text("".join(lines[3:6]))
        path.write_text("".join(lines[6:8]) + '{"event": "wri\n[]\n\x00\x00\n' + lines[8])
        (tmp_path / "audit.jsonl.lock").write_text("no log")
        return path

    def line(self, minute: int) -> str:
        shared = {"mode": "active", "policy": "sjf", "model": "", "reason": "policy"}
        when = time.mktime((2026, 11, 21, 12, minute, 0, 0, 0, -1))
        write = {"event": "write", "time": when, **shared, "job": minute % 2, "old": 0}
        write.update({"new": 100 * minute, "rank": minute, "score": 0.5})
        cycle = {"event": "cycle", "time": when, **shared, "jobs": 1, "order": [minute % 2]}
        return json.dumps(cycle) + "\n" + json.dumps(write) + "\n"

    def test_rotated_files_come_first_and_bad_lines_are_counted(
        self, site: FakeSite, log: Path
    ) -> None:
        told = site.json("audit", "--event", "write")
        assert [line["new"] for line in told["lines"]] == [100 * minute for minute in range(9)]
        assert told["bad_lines"] == 3
        status, out, err = site("audit")
        assert status == 0
        assert len(out.splitlines()) == 1 + 18
        assert "3 lines are no lines of an audit log" in err

    def test_filters(self, site: FakeSite, log: Path) -> None:
        day = "2026-11-21T12"
        words_of = ["audit", "-j", "1", "--since", f"{day}:02", "--until", f"{day}:06"]
        assert [line["new"] for line in site.json(*words_of)["lines"]] == [300, 500]
        assert [line["new"] for line in site.json(*words_of, "-n", "1")["lines"]] == [500]
        assert site.json("audit", "--since", "now-1hour")["lines"] == []

    def test_a_table_with_bars_counts_ranks_from_one(self, site: FakeSite, log: Path) -> None:
        _, out, _ = site("audit", "-n", "2", "--parsable2", "--noheader")
        assert out.splitlines() == [
            "2026-11-21T12:08:00|cycle|active|sjf||(1 jobs)|||||policy",
            "2026-11-21T12:08:00|write|active|sjf||0|0|800|9|0.5|policy",
        ]

    def test_a_broken_archive_is_said_and_the_rest_is_read(self, site: FakeSite, log: Path) -> None:
        archive = site.folder / "audit.jsonl.2.gz"
        archive.write_bytes(archive.read_bytes()[:-20])
        status, out, err = site("audit", "--event", "write", "--noheader")
        assert status == 1
        assert "audit.jsonl.2.gz cannot be read to its end" in err
        assert len(out.splitlines()) >= 6

    def test_no_log_is_wrong_configuration(self, site: FakeSite) -> None:
        assert "does not exist" in site.failing("audit", code=2)


class TestCheck:
    def test_what_slurm_conf_tells(self, site: FakeSite) -> None:
        for settings, what in (
            ({"PrioritySiteFactorPlugin": "site_factor/x"}, "overwrites every"),
            ({"PriorityType": "priority/basic"}, "write PriorityType=priority/multifactor, "),
        ):
            site.cluster.set(settings=settings)
            result, said = site.checks()["lever"]
            assert (result, what in said) == ("fail", True)

    def test_denied_writes_a_missing_folder_and_a_bad_model(self, site: FakeSite) -> None:
        site.cluster.break_command("scontrol", "deny")
        assert "AdminLevel=Operator" in site.checks()["right to write"][1]
        (site.folder / "broken.onnx").write_text("no graph")
        site.configure("policy", model="broken.onnx")
        site.configure("hook", state_file=f"{site.folder}/none/state.json")
        found = site.checks()
        assert found["model"][0] == found["state_file"][0] == "fail"
        assert site("check")[0] == 1

    def test_beside_a_daemon_nothing_is_written(self, site: FakeSite) -> None:
        with only_daemon(site.state_file):
            assert "a daemon runs" in site.checks()["right to write"][1]
        assert "scontrol_calls" not in site.cluster.state


class TestFairShareCheck:
    @pytest.mark.parametrize(
        ("hours", "weight", "result", "what"),
        [
            (0, "10000", "warn", "accounts' shares will not count: influence_hours = 0 overrides"),
            (0, "0", "pass", "has no term for accounts' shares"),
            (72, "10000", "pass", "adds 3000 points, next to PriorityWeightFairshare = 10000"),
            (72, "1000", "warn", "can outweigh accounts' shares"),
            (72, "1000", "warn", "set influence_hours to 24 or less"),
            (72, "2", "warn", "more than PriorityWeightFairshare = 2; raise it"),
        ],
    )
    def test_whether_shares_count(
        self, site: FakeSite, hours: int, weight: str, result: str, what: str
    ) -> None:
        site.configure("hook", influence_hours=hours)
        site.cluster.set(settings={"PriorityWeightFairShare": weight})
        found = site.checks()["fair share"]
        assert (found[0], what in found[1]) == (result, True), found


UTILITIES = asset("utilities.toml")


def submit(site: FakeSite, **words: str) -> None:
    """Users may choose two classes; short jobs, such as 31, are of a third."""
    site.append(UTILITIES)
    site.wait(31, 600, time_limit="9:00", **words)


def test_explain_says_what_a_class_makes_of_a_wait(site: FakeSite) -> None:
    submit(site)
    told = site.json("explain", "31")["utility"]
    assert told["class"] == "theirs"
    assert not told["by_user"]
    assert told["now"] == pytest.approx(math.exp(-0.5 * 9), rel=0.05)  # 9 minutes past the first
    assert told["further_hour"] == pytest.approx(told["now"])
    assert "Utility: class theirs: 0.01" in site("explain", "31")[1]


def test_a_job_may_carry_a_class_that_users_may_choose(site: FakeSite) -> None:
    submit(site, comment="a|run\nslurm-rl:class=mine |;| b", name="c|;|d")
    told = site.json("explain", "31")["utility"]
    assert (told["class"], told["by_user"], told["ignored"]) == ("mine", True, None)
    assert told["now"] == pytest.approx(600 / 1140, rel=0.01)  # (540 + 60) / (540 + 600)
    assert told["further_hour"] == pytest.approx(600 / 1140 - 600 / 4740, rel=0.01)


def test_a_job_may_carry_its_own_deadline(site: FakeSite) -> None:
    """The job of nine minutes can start now and end in time, but not in an hour."""
    due = time.time() + 1800  # noqa: TID251 - the clock of the commands
    when = time.strftime("%Y-%m-%dT%H:%M", time.localtime(due))
    submit(site, comment=f"slurm-rl:deadline={when}")
    told = site.json("explain", "31")["utility"]
    assert (told["class"], told["by_user"]) == ("due", True)
    assert told["deadline"] == pytest.approx(due, abs=60.0)
    assert (told["now"], told["further_hour"]) == (1.0, 1.0)
    line = f"Utility: class due, as its user asks, due {when}:00: 1.000 if it starts now; a further"
    assert line in site("explain", "31")[1]


@rows_of("wishes of a user")
def test_a_wish_that_cannot_be_had_is_ignored_with_one_sentence(
    site: FakeSite, words: str, said: str
) -> None:
    submit(site, comment=f"slurm-rl:{words}")
    assert site.json("explain", "31")["utility"]["class"] == "theirs"
    [line] = [each for each in site.out("explain", "31").splitlines() if "is ignored" in each]
    assert said in line


def test_a_site_that_lets_users_choose_nothing_says_so(site: FakeSite) -> None:
    site.wait(31, 600, time_limit="9:00", comment="slurm-rl:class=mine")
    assert "utility" not in site.json("explain", "31")
    site.append(UTILITIES.replace("users = true\n", ""))
    told = site.json("explain", "31")["utility"]
    assert (told["class"], told["ignored"]) == ("theirs", "users may choose no class")
