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
from slurm_rl_plugin.hook.experiment.turns import (
    OVER,
    RUNNING,
    ExperimentFiles,
    ExperimentStanding,
)
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from slurm_rl_plugin.papers.switchback.clusters import declared
from slurm_rl_plugin.units import DAY
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.running_daemon import free_port
from tests.functional.small_site import small_network
from tests.functional.typed import Typed

#: Jobs that may be ordered: id -> time limit; 6 is an array.
ORDERED = {1: "50:00", 2: "40:00", 3: "30:00", 4: "20:00", 6: "5:00"}
HELD, DEPENDENT, BY_HAND, EXEMPT = 11, 12, 13, 14


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A queue with a job of every kind, and a configuration in the working folder."""
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    fake.set(now=now)
    for job, limit in ORDERED.items():
        when = now - 1000 + job
        array = {"tasks": "1-4"} if job == 6 else {}
        fake.add(job, submit=when, eligible=when, time_limit=limit, **array)
    recent = {"submit": now - 50, "eligible": now - 50}
    fake.add(HELD, reason="JobHeldUser", submit=now - 50, eligible=None)
    fake.add(DEPENDENT, reason="Dependency", submit=now - 50, eligible=None)
    fake.add(BY_HAND, by_hand=50_000, **recent)
    fake.add(EXEMPT, account="biology", user="bob", partition="short", **recent)
    fake.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    configure(tmp_path)
    return fake


def configure(folder: Path, *, model: str = "sjf", mode: str = "active", **extra: str) -> None:
    (folder / "site.toml").write_text(
        f'[hook]\nmode = "{mode}"\ninfluence_hours = 0\ndisable_file = "{folder}/DISABLE"\n'
        f'state_file = "{folder}/state.json"\naudit_file = "{folder}/audit.jsonl"\n'
        f'[policy]\nmodel = "{model}"\n{extra.get("policy", "")}\n'
        f'[guard_rails]\nexempt_accounts = ["biology"]\n{extra.get("rails", "")}\n'
        f"[metrics]\nport = {extra.get('port', '0')}\n"
    )


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_the_queue_is_what_the_next_cycle_decides(
    words: Typed, site: FakeCluster, tmp_path: Path
) -> None:
    jobs = words.json("queue")["jobs"]
    decided = [job["jobid"] for job in jobs if job["untouched"] is None]
    assert decided == [6, 4, 3, 2, 1]
    wanted = {job["jobid"]: job["newfactor"] for job in jobs}
    assert words("run", "--once")[0] == 0
    cycle = json.loads((tmp_path / "audit.jsonl").read_text().splitlines()[0])
    assert cycle["order"] == decided
    assert {job: site.record(job)["site"] for job in ORDERED} == {
        job: wanted[job] for job in ORDERED
    }
    after = words.json("queue")["jobs"]
    assert [job["jobid"] for job in after] == [job["jobid"] for job in jobs]
    assert [job["nowrank"] for job in after] == [job["rank"] for job in jobs]
    assert [job["siterank"] for job in after] == [job["siterank"] for job in jobs]


def test_ranks_count_every_job_that_can_start_and_name_why_one_is_untouched(words: Typed) -> None:
    jobs = {job["jobid"]: job for job in words.json("queue")["jobs"]}
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
def test_the_queue_is_filtered(words: Typed, options: tuple[str, ...], expected: list[int]) -> None:
    assert [job["jobid"] for job in words.json("queue", *options)["jobs"]] == expected


def test_chosen_fields_without_a_header_and_with_bars(words: Typed) -> None:
    _, out, _ = words("queue", "-j", "6,11", "-o", "RANK,jobid,timelimit", "-n", "--parsable2")
    assert out.splitlines() == ["3|6|00:05:00", "|11|00:10:00"]
    _, table, _ = words("queue", "-j", "6", "-o", "jobid,class")
    assert [line.split() for line in table.splitlines()] == [
        ["JOBID", "CLASS"],
        ["6", "interactive"],
    ]


def test_an_unknown_field_is_wrong_usage(words: Typed) -> None:
    assert words("queue", "-o", "rank,colour")[0] == 2


@pytest.mark.parametrize(
    "verb", [("queue",), ("explain", "6"), ("explain", "6", "--json"), ("status",), ("audit",)]
)
@pytest.mark.parametrize("sees_history", [False, True])
def test_looking_changes_nothing(
    words: Typed, site: FakeCluster, tmp_path: Path, verb: tuple[str, ...], sees_history: bool
) -> None:
    model = tmp_path / "model.onnx"
    export_network(small_network(sees_history=sees_history), model, {})
    configure(tmp_path, model=str(model))
    assert words("run", "--once")[0] == 0
    assert (tmp_path / "state.json.memory").exists()
    before, calls = files(tmp_path), site.state["scontrol_calls"]
    words(*verb)
    assert files(tmp_path) == before
    assert site.state["scontrol_calls"] == calls


def test_a_look_works_beside_a_daemon(words: Typed, tmp_path: Path) -> None:
    with only_daemon(tmp_path / "state.json"):
        assert words("queue")[0] == 0
        assert words("explain", "6")[0] == 0
        assert words.json("status", code=None)["daemon"] == "runs"
    assert words.json("status", code=None)["daemon"] == "absent"


def test_a_policy_that_cannot_be_used_is_said(words: Typed, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    configure(tmp_path, model=f"{tmp_path}/broken.onnx")
    status, out, err = words("queue", "-n", "-o", "jobid")
    assert status == 0
    assert "cannot be read as ONNX" in err
    assert [int(job) for job in out.split()][2:7] == list(ORDERED)  # by submission
    assert "Our order puts the job at place" in words("explain", "6")[1]
    configure(tmp_path, model=f"{tmp_path}/broken.onnx", policy='fallback = "site"')
    jobs = words.json("queue")["jobs"]
    assert [job["rank"] for job in jobs] == [job["siterank"] for job in jobs]
    told = words("explain", "6")[1]
    assert "The policy is not used" in told
    assert "The order is the site's: place" in told
    assert "Score" not in told
    assert "Guard rail" not in told


def test_an_experiment_is_told_beside_the_order_of_the_configured_model(
    words: Typed, tmp_path: Path
) -> None:
    files = ExperimentFiles(state_file=tmp_path / "state.json")
    assert words.json("explain", "6")["experiment"] is None
    files.declare(declared(1, 2), ExperimentStanding(state=RUNNING, reason="", at=1.0))
    assert "an experiment runs, drawn against the site's order" in words("queue")[2]
    assert "An experiment runs" in words("explain", "6")[1]
    files.stand(ExperimentStanding(state=OVER, reason="it is over.", at=2.0))
    assert words("queue")[2] == ""
    files.declaration.write_text("no declaration")
    assert words("queue")[2] == ""


def test_an_unreachable_slurm_is_one_sentence_and_exit_code_1(
    words: Typed, site: FakeCluster
) -> None:
    for command in ("squeue", "sprio"):
        site.break_command(command, "down")
    for verb in (("queue",), ("explain", "6")):
        status, _, err = words(*verb)
        assert (status, err.count("\n")) == (1, 1)
        assert "scontrol ping" in err
    assert words.json("status", code=None)["slurm"]["reachable"] is False


class TestExplain:
    def test_a_task_of_an_array_under_a_rule(self, words: Typed) -> None:
        told = words.json("explain", "6_3")
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

    def test_an_array_waits_since_its_last_start_for_all_its_tasks(
        self, words: Typed, site: FakeCluster
    ) -> None:
        now = site.state["now"]
        site.change(6, tasks="3-42")
        site.add(7, array_id=6, tasks="2", state="RUNNING", start=now - 30, nodes="n1")
        out = words("explain", "6")[1]
        assert "Of its wait 00:00:3" in out
        assert "count: an array has waited since a task of it last started." in out
        assert "Its waiting tasks fill the machine 5 times." in out

    def test_features_of_a_model_and_what_each_adds(self, words: Typed, tmp_path: Path) -> None:
        model = tmp_path / "model.onnx"
        network = small_network(sees_history=True)
        export_network(network, model, {})
        configure(tmp_path, model=str(model))
        told = words.json("explain", "6")
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

    def test_how_the_run_time_is_spread(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, model="default")
        told = words.json("explain", "6")["run_time"]["predicted"]
        assert list(told["quantiles"]) == ["0.1", "0.25", "0.5", "0.75", "0.9"]
        assert list(told["quantiles"].values()) == sorted(told["quantiles"].values())
        assert told["median"] == told["quantiles"]["0.5"]
        assert "of ten such runs eight last from" in words("explain", "6")[1]

    def test_points_of_the_shipped_order(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, model="default")
        (line,) = [x for x in words("explain", "6")[1].splitlines() if x.startswith("Points: ")]
        # ln(1 + 1000 / 14400) for the wait; the account has used 0.75 and has a share of 0.7
        assert line.startswith("Points: waited 00:16:")
        assert ": +0.1; " in line
        assert "its account's usage over its share: -1.6" in line  # 16 * log2(0.75 / 0.7)
        assert "counts as a run of 00:0" in line
        assert "processors" not in line  # one adds nothing
        configure(tmp_path, model="sjf")
        assert "Points: " not in words("explain", "6")[1]

    def test_goals_of_the_site_count_at_once(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, model="default")
        before = words.json("explain", "6")["score"]
        goals = "[goals]\nshares = 0\ninteractive = 5\n"
        with (tmp_path / "site.toml").open("a") as file:
            file.write(goals)
        gained = 5 + 16 * math.log2(0.75 / 0.7)  # its class, and no points lost for shares
        assert words.json("explain", "6")["score"] - before == pytest.approx(gained, abs=0.01)

    @pytest.mark.parametrize(
        ("job", "sentence"),
        [
            (HELD, "it is held"),
            (DEPENDENT, "not eligible yet"),
            (BY_HAND, "set by hand"),
            (EXEMPT, "exempt_accounts"),
        ],
    )
    def test_why_a_job_is_untouched(self, words: Typed, job: int, sentence: str) -> None:
        status, out, _ = words("explain", str(job))
        assert status == 0
        assert sentence in out
        assert "Score" not in out

    @pytest.mark.parametrize(
        ("job", "reason", "sentence"),
        [
            (
                6,
                "Priority",
                "jobs before it start first; wait for its turn. Our order puts the job "
                "at place 3 of 7.",
            ),
            (
                6,
                "Dependency",
                "the job depends on a job that has not ended yet; wait, or change "
                "Dependency with `scontrol update`. Our order cannot change that; it keeps place 3 "
                "of 7 for the job.",
            ),
            (
                EXEMPT,
                "Priority",
                "jobs before it start first; wait for its turn. The order is the "
                "site's: place 2 of 7.",
            ),
            (
                HELD,
                "JobHeldUser",
                "the user or a coordinator of the account holds the job; release "
                "it with `scontrol release`. Our order gives the job no place until then.",
            ),
            (
                6,
                "NewReason",
                "this release of slurm-rl does not know the reason; ask the "
                "administrators. Our order cannot change that; it keeps place 3 of 7 for the job.",
            ),
        ],
    )
    def test_what_the_reason_means_and_what_our_order_adds(
        self, words: Typed, site: FakeCluster, job: int, reason: str, sentence: str
    ) -> None:
        site.change(job, reason=reason)
        assert f"Reason {reason}: {sentence}\n" in words("explain", str(job))[1]

    def test_it_fits_one_screen_and_a_name_cannot_move_the_cursor(
        self, words: Typed, site: FakeCluster
    ) -> None:
        site.change(6, reason="Res\x1b[2Jources")
        assert words("run", "--once")[0] == 0
        out = words("explain", "6")[1]
        assert len(out.splitlines()) <= 40
        assert "\x1b" not in out
        assert "AUDIT" in out

    def test_a_starving_job_names_the_guard_rail(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, rails="starvation_hours = 0.27725")  # 998.1 s: job 1 alone
        told = words.json("explain", "1")
        assert told["guard_rails"] == [
            {"rail": "starvation bound", "place_before": 5, "place_after": 1}
        ]
        assert "starvation bound: place 5" in words("explain", "1")[1]

    def test_a_job_that_waits_with_a_flag_of_slurm_in_place_of_pending(
        self, words: Typed, site: FakeCluster
    ) -> None:
        """Slurm shows it until a released job starts whose reservation was deleted."""
        site.change(4, state="RESV_DEL_HOLD")
        told = words.json("explain", "4")
        assert (told["job"], told["ranks"]["decided"]) == (4, 4)

    @pytest.mark.parametrize(("policy", "weighs"), [("sjf", False), ("multifactor", True)])
    def test_whether_shares_have_any_weight(
        self, words: Typed, tmp_path: Path, policy: str, weighs: bool
    ) -> None:
        configure(tmp_path, model=policy)
        assert words.json("explain", "6")["account"]["weighs_share"] is weighs
        sentence = "share and usage have no weight in this model"
        assert (sentence in words("explain", "6")[1]) is not weighs

    def test_the_users_own_order_and_how_far_it_moved_the_job(
        self, words: Typed, site: FakeCluster
    ) -> None:
        said = "Your own order (nice) put it {} among your jobs."
        assert "Your own order" not in words("explain", "4")[1]
        site.change(4, nice=7)  # the second of five by its limit
        assert words.json("explain", "4")["own_order"] == 3
        assert said.format("3 places later") in words("explain", "4")[1]
        assert said.format("1 place earlier") in words("explain", "2")[1]
        assert "Your own order" not in words("explain", "6")[1]

    def test_the_lift_of_an_account_and_what_it_got(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, model="default")
        before = words.json("explain", "6")
        day, name = int(time.time() // DAY), before["account"]["name"]  # noqa: TID251
        service = {"seen": 8 * DAY, "service": {name: 41.0, "chemistry": 59.0}}
        kept = {"days": {str(day): service}, "lifts": {"accounts": {name: 0.5}}}
        (tmp_path / "state.json.service").write_text(json.dumps({"version": 1, **kept}))
        (tmp_path / "state.json.service").chmod(0o600)
        told = words.json("explain", "6")
        assert told["account"]["lift"] == 0.5
        assert told["account"]["usage"] == before["account"]["usage"]
        assert told["score"] - before["score"] == pytest.approx(16 * 0.5, abs=0.01)
        ratio = told["account"]["ratio"]
        said = f"lifted by 0.5 doublings: it got {100 * ratio:.0f} % of its entitlement in 14 days"
        assert said in words("explain", "6")[1]

    def test_the_lift_of_a_group_of_jobs(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, model="default")
        with (tmp_path / "site.toml").open("a") as file:
            file.write('[guard]\nwait_hours = { "up to 15 min" = 1.0 }\n')
        before = words.json("explain", "6")
        kept = {"days": {}, "lifts": {"groups": {"up to 15 min": 1.0}}}
        (tmp_path / "state.json.service").write_text(json.dumps({"version": 1, **kept}))
        (tmp_path / "state.json.service").chmod(0o600)
        told = words.json("explain", "6")
        assert (before["wait_counts"], told["wait_counts"]) == (1.0, 2.0)
        # ln(1 + 2000 / 14400) - ln(1 + 1000 / 14400), and 3 ln 2: it waits longest of all
        gained = 0.063 + 3 * math.log(2)
        assert told["score"] - before["score"] == pytest.approx(gained, abs=0.01)
        assert told["accrued"] == pytest.approx(before["accrued"], abs=5.0)
        assert "Its wait counts 2 times" in words("explain", "6")[1]

    def test_a_job_that_runs_or_that_nobody_knows(self, words: Typed, site: FakeCluster) -> None:
        site.run_job(4)
        status, _, err = words("explain", "4")
        assert (status, "RUNNING" in err, "audit -j 4" in err) == (1, True, True)
        status, _, err = words("explain", "4242")
        assert (status, "not in the queue" in err) == (1, True)

    def test_what_could_not_be_read_is_said(self, words: Typed, tmp_path: Path) -> None:
        told = words.json("explain", str(HELD))
        assert any("sprio lists no job" in each for each in told["not_read"])
        assert any("audit log" in each for each in told["not_read"])


class TestStatus:
    @pytest.mark.parametrize("mode", ["shadow", "active"])
    def test_a_configured_site_without_its_daemon_is_not_well(
        self, words: Typed, tmp_path: Path, mode: str
    ) -> None:
        configure(tmp_path, mode=mode)
        status, out, _ = words("status")
        assert (status, "no daemon has run on this host yet: start it" in out) == (1, True)
        with only_daemon(tmp_path / "state.json"):
            status, out, _ = words("status")
            assert (status, "all is well" in out) == (0, True)
        status, out, _ = words("status")
        assert (status, f"(mode {mode}): start it with" in out) == (1, True)
        assert "daemon: absent\n" in out
        assert "all is well" not in out

    @pytest.mark.parametrize("mode", ["shadow", "active"])
    def test_a_daemon_that_was_switched_off_may_be_absent(
        self, words: Typed, tmp_path: Path, mode: str
    ) -> None:
        configure(tmp_path, mode=mode)
        (tmp_path / "DISABLE").touch()
        status, out, _ = words("status")
        assert (status, "all is well" in out) == (0, True)
        assert "daemon: absent (switched off by the disable file, as intended)" in out

    def test_the_page_shows_what_the_audit_log_knows(self, words: Typed, tmp_path: Path) -> None:
        words("run", "--once")
        status, page, _ = words("status", "--html")
        assert status == 1  # factors are outstanding, and no daemon runs
        assert "no daemon runs" in page
        assert "It gained or lost if its rank differs" in page  # in active mode
        assert "<h2>Experiment</h2>\n<p>It is not known, since" in page
        for group in ("interactive", "account physics"):
            assert f'<th scope="row">{group}</th>' in page
        assert words("status", "--html", str(tmp_path / "page.html"))[1] == ""
        assert "Who got their share" in (tmp_path / "page.html").read_text()

    def test_factors_without_a_daemon(self, words: Typed, tmp_path: Path) -> None:
        words("run", "--once")
        configure(tmp_path, mode="shadow")
        told = words.json("status", code=None)
        assert told["slurm"]["with_factor"] > 0
        assert told["jobs_in_state_file"] >= told["slurm"]["with_factor"]
        assert any("slurm-rl release" in each for each in told["problems"])
        assert words("release")[0] == 0
        assert not any("release" in each for each in words.json("status", code=None)["problems"])

    @pytest.fixture
    def metrics(self, tmp_path: Path) -> CycleMetrics:
        """What a daemon serves."""
        found = CycleMetrics(CollectorRegistry(), {"name": "sjf"})
        configure(tmp_path, port=str(serve_metrics(found, "127.0.0.1", 0)))
        return found

    def report(self, **values: Any) -> CycleReport:
        now = time.time()  # noqa: TID251 - the daemon's clock
        return CycleReport(**{"time": now, "mode": "active", "policy": "sjf", **values})

    def test_what_the_daemon_says(
        self, words: Typed, tmp_path: Path, metrics: CycleMetrics
    ) -> None:
        with only_daemon(tmp_path / "state.json"):
            metrics.publish(self.report(adjustments={"up": 3}))
            status, out, _ = words("status")
            assert (status, "cycles: 1, failed: 0, writes: 3" in out) == (0, True)
            metrics.publish(self.report(fallback_reason="late", mode="fallback"))
            assert "fallback is active" in words("status")[1]
            metrics.publish(self.report(failure="batch_system"))
            told = words.json("status", code=None)
            assert told["metrics"]["failures"] == {"batch_system": 1}
            assert any("last cycle failed" in each for each in told["problems"])
            metrics.publish(self.report(time=1000.0))
            assert "may hang" in words("status")[1]

    def test_no_answer_is_said_and_no_error(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, mode="shadow", port=str(free_port()))
        with only_daemon(tmp_path / "state.json"):
            status, out, _ = words("status")
        assert (status, "no daemon answers" in out) == (0, True)

    def test_a_refused_model_is_a_problem(self, words: Typed, tmp_path: Path) -> None:
        configure(tmp_path, mode="shadow", model=f"{tmp_path}/missing.onnx")
        status, out, _ = words("status")
        assert (status, "missing.onnx cannot be read" in out) == (1, True)


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
        self, words: Typed, log: Path
    ) -> None:
        told = words.json("audit", "--event", "write")
        assert [line["new"] for line in told["lines"]] == [100 * minute for minute in range(9)]
        assert told["bad_lines"] == 3
        status, out, err = words("audit")
        assert status == 0
        assert len(out.splitlines()) == 1 + 18
        assert "3 lines are no lines of an audit log" in err

    def test_filters(self, words: Typed, log: Path) -> None:
        words_of = (
            "audit",
            "-j",
            "1",
            "--since",
            "2026-11-21T12:02",
            "--until",
            "2026-11-21T12:06",
        )
        assert [line["new"] for line in words.json(*words_of)["lines"]] == [300, 500]
        assert [line["new"] for line in words.json(*words_of, "-n", "1")["lines"]] == [500]
        assert words.json("audit", "--since", "now-1hour")["lines"] == []

    def test_a_table_with_bars_counts_ranks_from_one(self, words: Typed, log: Path) -> None:
        _, out, _ = words("audit", "-n", "2", "--parsable2", "--noheader")
        assert out.splitlines() == [
            "2026-11-21T12:08:00|cycle|active|sjf||(1 jobs)|||||policy",
            "2026-11-21T12:08:00|write|active|sjf||0|0|800|9|0.5|policy",
        ]

    def test_a_broken_archive_is_said_and_the_rest_is_read(
        self, words: Typed, log: Path, tmp_path: Path
    ) -> None:
        archive = tmp_path / "audit.jsonl.2.gz"
        archive.write_bytes(archive.read_bytes()[:-20])
        status, out, err = words("audit", "--event", "write", "--noheader")
        assert status == 1
        assert "audit.jsonl.2.gz cannot be read to its end" in err
        assert len(out.splitlines()) >= 6

    def test_no_log_is_wrong_configuration(self, words: Typed) -> None:
        status, _, err = words("audit")
        assert (status, "does not exist" in err) == (2, True)


def results(words: Typed) -> dict[str, tuple[str, str]]:
    """Name of each check -> its result and what it says."""
    checks = words.json("check", code=None)["checks"]
    return {check["name"]: (check["result"], check["what"]) for check in checks}


class TestCheck:
    def test_a_site_where_all_is_well(
        self, words: Typed, site: FakeCluster, tmp_path: Path
    ) -> None:
        text = (tmp_path / "site.toml").read_text()
        (tmp_path / "site.toml").write_text(text.replace("influence_hours = 0\n", ""))
        sites = {job["job_id"]: job["site"] for job in site.state["jobs"]}
        status, said, _ = words("check")
        assert status == 0, said
        assert results(words)["lever"] == (
            "pass",
            "SiteFactor: a term of its own, nothing else is touched",
        )
        others = {name: each for name, each in results(words).items() if name != "metrics port"}
        assert {result for result, _ in others.values()} == {"pass"}, others
        assert {job["job_id"]: job["site"] for job in site.state["jobs"]} == sites

    @pytest.mark.parametrize(
        ("settings", "what"),
        [
            ({"PrioritySiteFactorPlugin": "site_factor/x"}, "overwrites every"),
            ({"PriorityType": "priority/basic"}, "write PriorityType=priority/multifactor, "),
        ],
    )
    def test_what_slurm_conf_tells(
        self,
        words: Typed,
        site: FakeCluster,
        settings: dict[str, str],
        what: str,
    ) -> None:
        site.set(settings=settings)
        result, said = results(words)["lever"]
        assert (result, what in said) == ("fail", True)
        assert words("check")[0] == 1

    def test_denied_writes_a_missing_folder_and_a_bad_model(
        self, words: Typed, site: FakeCluster, tmp_path: Path
    ) -> None:
        site.break_command("scontrol", "deny")
        assert "AdminLevel=Operator" in results(words)["right to write"][1]
        (tmp_path / "broken.onnx").write_text("no graph")
        configure(tmp_path, model="broken.onnx")
        text = (tmp_path / "site.toml").read_text()
        (tmp_path / "site.toml").write_text(text.replace("state.json", "none/state.json"))
        found = results(words)
        assert found["model"][0] == found["state_file"][0] == "fail"
        assert words("check")[0] == 1

    def test_beside_a_daemon_nothing_is_written(
        self, words: Typed, site: FakeCluster, tmp_path: Path
    ) -> None:
        with only_daemon(tmp_path / "state.json"):
            assert "a daemon runs" in results(words)["right to write"][1]
        assert "scontrol_calls" not in site.state


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
        self,
        words: Typed,
        site: FakeCluster,
        tmp_path: Path,
        hours: int,
        weight: str,
        result: str,
        what: str,
    ) -> None:
        text = (tmp_path / "site.toml").read_text()
        text = text.replace("influence_hours = 0", f"influence_hours = {hours}")
        (tmp_path / "site.toml").write_text(text)
        site.set(settings={"PriorityWeightFairShare": weight})
        found = results(words)["fair share"]
        assert (found[0], what in found[1]) == (result, True), found


UTILITIES = """
[utility.due]
form = "deadline"
hours = 48
users = true
[utility.mine]
form = "power"
beta = 1.0
users = true
[utility.theirs]
form = "exponential"
[[job_class]]
class = "theirs"
time_limit_at_most = 3000
"""


@pytest.fixture
def site_with_classes(site: FakeCluster, tmp_path: Path) -> FakeCluster:
    """Short jobs are of class theirs; users may choose two others."""
    with (tmp_path / "site.toml").open("a") as file:
        file.write(UTILITIES)
    return site


def submit(site: FakeCluster, job: int, **words: str) -> None:
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    site.set(now=now)
    site.add(job, submit=now - 600, eligible=now - 600, time_limit="9:00", **words)


def test_explain_says_what_a_class_makes_of_a_wait(
    site_with_classes: FakeCluster, words: Typed
) -> None:
    submit(site_with_classes, 31)
    told = words.json("explain", "31")["utility"]
    assert told["class"] == "theirs"
    assert not told["by_user"]
    assert told["now"] == pytest.approx(math.exp(-0.5 * 9), rel=0.05)  # 9 minutes past the first
    assert told["further_hour"] == pytest.approx(told["now"])
    assert "Utility: class theirs: 0.01" in words("explain", "31")[1]


def test_a_job_may_carry_a_class_that_users_may_choose(
    site_with_classes: FakeCluster, words: Typed
) -> None:
    submit(site_with_classes, 31, comment="a|run\nslurm-rl:class=mine |;| b", name="c|;|d")
    told = words.json("explain", "31")["utility"]
    assert (told["class"], told["by_user"], told["ignored"]) == ("mine", True, None)
    assert told["now"] == pytest.approx(600 / 1140, rel=0.01)  # (540 + 60) / (540 + 600)
    assert told["further_hour"] == pytest.approx(600 / 1140 - 600 / 4740, rel=0.01)


def test_a_job_may_carry_its_own_deadline(site_with_classes: FakeCluster, words: Typed) -> None:
    """The job of nine minutes can start now and end in time, but not in an hour."""
    due = time.time() + 1800  # noqa: TID251 - the clock of the commands
    when = time.strftime("%Y-%m-%dT%H:%M", time.localtime(due))
    submit(site_with_classes, 31, comment=f"slurm-rl:deadline={when}")
    told = words.json("explain", "31")["utility"]
    assert (told["class"], told["by_user"]) == ("due", True)
    assert told["deadline"] == pytest.approx(due, abs=60.0)
    assert (told["now"], told["further_hour"]) == (1.0, 1.0)
    line = f"Utility: class due, as its user asks, due {when}:00: 1.000 if it starts now; a further"
    assert line in words("explain", "31")[1]


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ("class=theirs", "class 'theirs' is none of those that users may choose: due, mine"),
        ("deadline=soon", "'soon' is no time such as 2027-01-31T12:00"),
        ("deadline=0001-01-01T00:00", "is no time such as"),
        ("deadline=2020-01-01T00:00", "is over before the job could start"),
        ("deadline=2999-01-01T00:00", "is later than the 48 hours of class due"),
        ("class=", "class '' is none of those"),
        ("clas=mine", "'clas' is neither class nor deadline"),
        ("", "'' is neither class nor deadline"),
    ],
)
def test_a_wish_that_cannot_be_had_is_ignored_with_one_sentence(
    site_with_classes: FakeCluster, words: Typed, wish: str, reason: str
) -> None:
    submit(site_with_classes, 31, comment=f"slurm-rl:{wish}")
    assert words.json("explain", "31")["utility"]["class"] == "theirs"
    status, out, _ = words("explain", "31")
    assert status == 0
    [line] = [each for each in out.splitlines() if "of its user is ignored" in each]
    assert reason in line


def test_a_site_that_lets_users_choose_nothing_says_so(
    site: FakeCluster, words: Typed, tmp_path: Path
) -> None:
    submit(site, 31, comment="slurm-rl:class=mine")
    assert "utility" not in words.json("explain", "31")
    with (tmp_path / "site.toml").open("a") as file:
        file.write(UTILITIES.replace("users = true\n", ""))
    told = words.json("explain", "31")["utility"]
    assert (told["class"], told["ignored"]) == ("theirs", "users may choose no class")
