"""`slurm-rl shadow-report` over the fake Slurm: both parts, too few jobs, no simulator."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.evaluation.site_replay import policies_in_force
from tests.fakes.ended_jobs import ended_load
from tests.fakes.without_extras import without_extras
from tests.functional.fake_site import FakeSite

JOBS = 300


def with_past(site: FakeSite) -> FakeSite:
    """A queue that the policy and the site order differently, and a day of past jobs."""
    site.cluster.set(accounting=ended_load(JOBS, site.now - 86400))
    for job, minutes in ((1, 50), (2, 5), (3, 20)):
        site.wait(job, time_limit=f"{minutes}:00")
    site.wait(4, time_limit="10:00", account="biology", user="bob")
    site.configure("hook", mode="shadow", influence_hours=72)
    return site


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    """After one cycle in shadow mode."""
    with_past(empty_site).out("run", "--once")
    return empty_site


def test_both_parts(site: FakeSite) -> None:
    site.out("run", "--once")
    found = site.json("shadow-report", "--since", "now-3days", "--moved", "1")
    shadow = found["shadow"]
    assert shadow["cycles"] == shadow["cycles_with_jobs"] == 2
    assert shadow["jobs_seen"] == 4
    assert shadow["would_be_writes"] > 0 == shadow["writes"]
    # the site: 1 2 3 4 by number; decided: 2 4 3 1 by time limit
    assert shadow["kendall_tau"] == pytest.approx(1 - 4 * 4 / 12)
    assert shadow["moves"] == {
        "job_cycles": 8,
        "earlier": 0.25,
        "later": 0.25,
        "median_move": 0.0,
    }
    assert shadow["accounts"]["biology"]["median_move"] == 2.0
    assert shadow["classes"]["interactive"]["job_cycles"] == 4

    prediction = found["prediction"]
    assert prediction["jobs"] == JOBS
    assert prediction["counted_jobs"] == JOBS - 30 - 15
    assert set(prediction["policies"]) == {"native", "native order", "multifactor", "fifo", "sjf"}
    assert prediction["policies"]["native"]["interactive_mean_wait"] == 10.0
    assert prediction["verdict"] == "inconclusive"
    assert prediction["figures"]["fairness"]["ci95"] is None
    assert prediction["figures"]["fairness"]["jobs_needed"] == 2500
    assert prediction["not_known"]
    assert prediction["warning"] is None

    status, out, _ = site("shadow-report", "--since", "now-3days", "--plot", "report.png")
    assert status == 0
    assert "Kendall's tau of the decided order and the site's: -0.333" in out
    assert f"After {JOBS - 45} jobs: mean bounded slowdown inconclusive - about 2,500 jobs" in out
    assert (site.folder / "report.png").read_bytes()[:4] == b"\x89PNG"


def test_a_page_for_the_committee(site: FakeSite) -> None:
    jobs = ended_load(JOBS, site.now - 86400)
    evil = "<script>x$y$</script>"
    site.cluster.set(
        accounting=[{**job, "Account": evil} if job["JobIDRaw"] % 2 else job for job in jobs]
    )
    found = site.json("shadow-report", "--since", "now-3days", "--committee", "page.html")
    assert found["committee"] == "page.html"
    page = (site.folder / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert "<script" not in page
    assert "http" not in page
    assert "&lt;script&gt;x$y$&lt;/script&gt;" in page
    assert f"{JOBS - 45} jobs of" in page
    assert "both orders were simulated" in page
    assert "By time limit" in page
    assert "Who loses" in page
    assert page.count('<table class="bars stacked">') == 3
    assert "Who loses" in site.out(
        "shadow-report", "--since", "now-3days", "--committee", "page.html"
    )


def test_no_page_without_a_replay_or_a_place(site: FakeSite) -> None:
    status, out, err = site("shadow-report", "--committee", "none/page.html")
    assert (status, out) == (2, "")
    assert "there is no such folder" in err
    assert "leave out --no-replay" in site.failing(
        "shadow-report", "--no-replay", "--committee", "page.html", code=2
    )
    site.cluster.set(accounting=[])
    status, out, err = site("shadow-report", "--committee", "page.html")
    assert (status, "no page without a replay: sacct: no job ended" in err) == (2, True)
    assert "No replay: " in out  # the rest is reported all the same
    assert not Path("page.html").exists()


def test_a_dump_written_here_is_replayed_elsewhere(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = site.json("shadow-report", "--since", "now-3days", "--keep", "week.sacct")
    (site.folder / "audit.jsonl").unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    there = site.json("shadow-report", "week.sacct", "--processors", "4")
    assert "unavailable" in there["shadow"]
    assert there["prediction"]["jobs"] == here["prediction"]["jobs"]
    assert there["prediction"]["processors"] == 4


def test_where_no_simulator_is_installed_the_first_part_is_told(site: FakeSite) -> None:
    given = ("--since", "now-3days", "--config", "site.toml")
    done = without_extras("shadow-report", *given, "--keep", "kept.sacct", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shadow"]["cycles"] == 1
    assert "needs numba" in found["prediction"]["unavailable"]
    header = (site.folder / "kept.sacct").read_text().splitlines()[0]
    assert header.split("|") == list(SACCT_FIELDS)
    done = without_extras("shadow-report", *given, "--keep", "nowhere/kept.sacct", "--json")
    assert done.returncode == 0, done.stderr
    assert "--keep nowhere/kept.sacct: the file cannot be written" in done.stderr
    assert json.loads(done.stdout)["shadow"]["cycles"] == 1
    done = without_extras("shadow-report", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No replay: the replay needs numba" in done.stdout


def test_too_few_jobs_and_no_accounting_are_sentences(site: FakeSite) -> None:
    site.cluster.set(accounting=ended_load(3, site.now - 7200))
    assert "No replay: 3 jobs of this time ran: too few" in site.out(
        "shadow-report", "--since", "now-3days"
    )
    site.cluster.set(accounting=[])
    assert "No replay: sacct: no job ended" in site("shadow-report")[1]
    site.cluster.break_command("sacct", "fail:Slurm accounting storage is disabled")
    status, out, _ = site("shadow-report")
    assert (status, out.count("No replay: ")) == (0, 1)
    assert "--no-replay was given" in site("shadow-report", "--no-replay")[1]


def test_rotated_files_of_an_earlier_release_are_read(site: FakeSite) -> None:
    (site.folder / "audit.jsonl").write_text("")
    status, out, err = site("shadow-report")
    assert (status, "The audit log has no cycle in this time." in out) == (2, True)
    assert "there is nothing to report: the audit log has no cycle" in err
    assert "no time to replay: give --since" in err
    line = {"event": "cycle", "time": 1795300000.5, "mode": "shadow", "policy": "m", "model": ""}
    line |= {"reason": "policy", "jobs": 2, "order": [7, 8]}
    packed = gzip.compress((json.dumps(line) + "\nno line\n").encode())
    (site.folder / "audit.jsonl.2.gz").write_bytes(packed)
    found = site.json("shadow-report", "--no-replay")["shadow"]
    assert (found["cycles"], found["cycles_without_site_order"], found["bad_lines"]) == (1, 1, 1)
    assert "It is not known how far the order would differ" in site("shadow-report")[1]


def test_active_mode_is_warned_of_and_guard_rails_are_counted(empty_site: FakeSite) -> None:
    site = with_past(empty_site)
    site.configure("hook", mode="active")
    site.configure("guard_rails", starvation_hours=0.01)
    site.out("run", "--once")
    found = site.json("shadow-report", "--since", "now-3days")
    assert found["shadow"]["modes"] == {"active": 1}
    assert found["shadow"]["guard_rails"] == {"starvation bound": 1}
    assert "wrote its own order" in found["prediction"]["warning"]


def test_without_a_log_and_with_wrong_words(site: FakeSite) -> None:
    (site.folder / "audit.jsonl").unlink()
    assert "does not exist" in site.failing("shadow-report", code=2)
    assert "there is no such folder" in site.failing(
        "shadow-report", "--plot", "none/figure.png", code=2
    )
    for wrong in (("missing.log",), ("site.toml",), ("site.toml", "--keep", "x")):
        status, out, err = site("shadow-report", *wrong)
        assert (status, bool(err)) == (2, True), out
    assert site("shadow-report", "--moved", "101")[0] == 2


RESERVE = '[reserve]\nmechanism = "qos"\nqos = "batch"\nmost_processors = 2\n'
FROM_A_TERMINAL = '[[job_class]]\nclass = "interactive"\nno_batch_script = true\n'


def test_what_a_reserve_would_have_done_and_its_price(empty_site: FakeSite) -> None:
    site = with_past(empty_site)
    site.configure("policy", model="reserve:2")
    site.append(RESERVE + FROM_A_TERMINAL)
    site.cluster.change(2, batch=0)
    site.out("run", "--once")
    site.out("run", "--once")
    found = site.json("shadow-report", "--since", "now-3days", "--moved", "1")
    limit = found["shadow"]["batch_limit"]
    assert 0 < limit.pop("limited_seconds") < 300
    assert limit == {
        "changes": {"lowered": 2},  # a daemon of one cycle does not know of the one before
        "lifted_for_wide_jobs": 0,
        "lowest_limit": 6,
    }
    assert found["shadow"]["jobs_seen"] == 4
    prediction = found["prediction"]
    assert {"reserve:2", "interactive-first"} <= set(prediction["policies"])
    price = prediction["reserve_price"]
    batch = {name: each["batch_mean_wait"] for name, each in prediction["policies"].items()}
    assert price["batch_mean_wait"] == batch["reserve:2"] / batch["interactive-first"]
    status, out, _ = site("shadow-report", "--since", "now-3days")
    assert status == 0
    assert "6 processors at the lowest; changes: 2 lowered; lifted for wide jobs: 0" in out
    assert "Price of the reserve, compared with the same order without it: batch: mean wait" in out
    status, out, _ = site("audit", "--event", "would_limit", "--json")
    assert [line["new"] for line in json.loads(out)["lines"]] == [6, 6]
    assert site("audit", "--event", "would_limit")[0] == 0


def test_the_price_is_that_of_the_limit_with_the_bounds_of_the_site(empty_site: FakeSite) -> None:
    site = with_past(empty_site)
    site.configure("policy", model="reserve:2")
    # at each decision no job has come for so long that no limit is ever set
    site.append(f"{RESERVE}idle_minutes = 0.0000001\n{FROM_A_TERMINAL}")
    site.cluster.change(2, batch=0)
    site.out("run", "--once")
    price = site.json("shadow-report", "--since", "now-3days", "--moved", "1")["prediction"][
        "reserve_price"
    ]
    assert set(price.values()) == {1.0}


@pytest.mark.parametrize("reserve", ["", RESERVE])
def test_a_reserve_that_is_off_plays_no_part_in_the_replay(tmp_path: Path, reserve: str) -> None:
    path = tmp_path / "kept.toml"
    path.write_text(f'[policy]\nmodel = "responsive-reserve"\n{reserve}')
    candidates = policies_in_force(read_configuration(path)).values()
    kept = [each.network.reserve_weights is not None for each in candidates if each.network]
    assert kept == ([True, False] if reserve else [False])


@pytest.mark.parametrize("model", ["default", "sjf"])
def test_a_policy_that_asks_for_no_number_keeps_most_processors(tmp_path: Path, model: str) -> None:
    path = tmp_path / "kept.toml"
    path.write_text(f'[policy]\nmodel = "{model}"\n{RESERVE}')
    policies = policies_in_force(read_configuration(path))
    kept = {name: each.reserve for name, each in policies.items()}
    assert kept == {model: 2, f"{model} without reserve": 0}
