"""`slurm-rl shadow-report` over the fake Slurm: both parts, too few jobs, no simulator."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.evaluation.site_replay import policies_in_force
from tests.fakes.ended_jobs import ended_load
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.without_extras import without_extras
from tests.functional.typed import Typed

JOBS = 300


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A queue that the policy and the site order differently, and a day of past jobs."""
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the clock of the commands
    fake.set(now=now, accounting=ended_load(JOBS, now - 86400))
    for job, minutes in ((1, 50), (2, 5), (3, 20), (4, 10)):
        account = {"account": "biology", "user": "bob"} if job == 4 else {}
        fake.add(job, submit=now - 99, eligible=now - 99, time_limit=f"{minutes}:00", **account)
    fake.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text(
        f'[hook]\nstate_file = "{tmp_path}/state.json"\naudit_file = "{tmp_path}/audit.jsonl"\n'
        f'disable_file = "{tmp_path}/DISABLE"\n[policy]\nmodel = "sjf"\n[metrics]\nport = 0\n'
    )
    return fake


def test_both_parts(words: Typed, tmp_path: Path) -> None:
    assert words("run", "--once")[0] == 0
    assert words("run", "--once")[0] == 0
    found = words.json("shadow-report", "--since", "now-3days", "--moved", "1")
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

    status, out, _ = words("shadow-report", "--since", "now-3days", "--plot", "report.png")
    assert status == 0
    assert "Kendall's tau of the decided order and the site's: -0.333" in out
    assert f"After {JOBS - 45} jobs: mean bounded slowdown inconclusive - about 2,500 jobs" in out
    assert (tmp_path / "report.png").read_bytes()[:4] == b"\x89PNG"


def test_a_page_for_the_committee(words: Typed, site: FakeCluster, tmp_path: Path) -> None:
    jobs = ended_load(JOBS, int(site.state["now"]) - 86400)
    evil = "<script>x$y$</script>"
    site.set(accounting=[{**job, "Account": evil} if job["JobIDRaw"] % 2 else job for job in jobs])
    assert words("run", "--once")[0] == 0
    found = words.json("shadow-report", "--since", "now-3days", "--committee", "page.html")
    assert found["committee"] == "page.html"
    page = (tmp_path / "page.html").read_text()
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
    status, out, _ = words("shadow-report", "--since", "now-3days", "--committee", "page.html")
    assert (status, "Who loses" in out) == (0, True)


def test_no_page_without_a_replay_or_a_place(words: Typed, site: FakeCluster) -> None:
    assert words("run", "--once")[0] == 0
    status, out, err = words("shadow-report", "--committee", "none/page.html")
    assert (status, out) == (2, "")
    assert "there is no such folder" in err
    status, _, err = words("shadow-report", "--no-replay", "--committee", "page.html")
    assert (status, "leave out --no-replay" in err) == (2, True)
    site.set(accounting=[])
    status, out, err = words("shadow-report", "--committee", "page.html")
    assert (status, "no page without a replay: sacct: no job ended" in err) == (2, True)
    assert "No replay: " in out  # the rest is reported all the same
    assert not Path("page.html").exists()


def test_a_dump_written_here_is_replayed_elsewhere(
    words: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words("run", "--once")[0] == 0
    here = words.json("shadow-report", "--since", "now-3days", "--keep", "week.sacct")
    (tmp_path / "audit.jsonl").unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    there = words.json("shadow-report", "week.sacct", "--processors", "4")
    assert "unavailable" in there["shadow"]
    assert there["prediction"]["jobs"] == here["prediction"]["jobs"]
    assert there["prediction"]["processors"] == 4


def test_where_no_simulator_is_installed_the_first_part_is_told(
    words: Typed, tmp_path: Path
) -> None:
    assert words("run", "--once")[0] == 0
    given = ("--since", "now-3days", "--config", "site.toml")
    done = without_extras("shadow-report", *given, "--keep", "kept.sacct", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shadow"]["cycles"] == 1
    assert "needs numba" in found["prediction"]["unavailable"]
    header = (tmp_path / "kept.sacct").read_text().splitlines()[0]
    assert header.split("|") == list(SACCT_FIELDS)
    done = without_extras("shadow-report", *given, "--keep", "nowhere/kept.sacct", "--json")
    assert done.returncode == 0, done.stderr
    assert "--keep nowhere/kept.sacct: the file cannot be written" in done.stderr
    assert json.loads(done.stdout)["shadow"]["cycles"] == 1
    done = without_extras("shadow-report", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No replay: the replay needs numba" in done.stdout


def test_too_few_jobs_and_no_accounting_are_sentences(words: Typed, site: FakeCluster) -> None:
    assert words("run", "--once")[0] == 0
    site.set(accounting=ended_load(3, int(site.state["now"]) - 7200))
    status, out, _ = words("shadow-report", "--since", "now-3days")
    assert (status, "No replay: 3 jobs of this time ran: too few" in out) == (0, True)
    site.set(accounting=[])
    assert "No replay: sacct: no job ended" in words("shadow-report")[1]
    site.break_command("sacct", "fail:Slurm accounting storage is disabled")
    status, out, _ = words("shadow-report")
    assert (status, out.count("No replay: ")) == (0, 1)
    assert "--no-replay was given" in words("shadow-report", "--no-replay")[1]


def test_cycles_in_active_mode_are_warned_of(words: Typed, tmp_path: Path) -> None:
    text = (tmp_path / "site.toml").read_text()
    (tmp_path / "site.toml").write_text(text.replace("[hook]", '[hook]\nmode = "active"'))
    assert words("run", "--once")[0] == 0
    found = words.json("shadow-report", "--since", "now-3days")
    assert found["shadow"]["modes"] == {"active": 1}
    assert "wrote its own order" in found["prediction"]["warning"]


def test_failed_cycles_and_guard_rails_are_in_the_log(
    words: Typed, site: FakeCluster, tmp_path: Path
) -> None:
    text = (tmp_path / "site.toml").read_text()
    rails = "[guard_rails]\nstarvation_hours = 0.01\n"
    (tmp_path / "site.toml").write_text(text + rails)
    assert words("run", "--once")[0] == 0
    assert words.json("shadow-report", "--no-replay")["shadow"]["guard_rails"] == {
        "starvation bound": 1
    }


def test_rotated_files_of_an_earlier_release_are_read(words: Typed, tmp_path: Path) -> None:
    line = {"event": "cycle", "time": 1795300000.5, "mode": "shadow", "policy": "m", "model": ""}
    line |= {"reason": "policy", "jobs": 2, "order": [7, 8]}
    packed = gzip.compress((json.dumps(line) + "\nno line\n").encode())
    (tmp_path / "audit.jsonl.2.gz").write_bytes(packed)
    found = words.json("shadow-report", "--no-replay")["shadow"]
    assert (found["cycles"], found["cycles_without_site_order"], found["bad_lines"]) == (1, 1, 1)
    assert "It is not known how far the order would differ" in words("shadow-report")[1]


def test_an_empty_log_is_said(words: Typed, tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").touch()
    status, out, err = words("shadow-report")
    assert (status, "The audit log has no cycle in this time." in out) == (2, True)
    assert "there is nothing to report: the audit log has no cycle" in err
    assert "no time to replay: give --since" in err


def test_without_a_log_and_with_wrong_words(words: Typed) -> None:
    status, _, err = words("shadow-report")
    assert (status, "does not exist" in err) == (2, True)
    status, _, err = words("shadow-report", "--plot", "none/figure.png")
    assert (status, "there is no such folder" in err) == (2, True)
    for wrong in (("missing.log",), ("site.toml",), ("site.toml", "--keep", "x")):
        status, out, err = words("shadow-report", *wrong)
        assert (status, bool(err)) == (2, True), out
    assert words("shadow-report", "--moved", "101")[0] == 2


RESERVE = '[reserve]\nmechanism = "qos"\nqos = "batch"\nmost_processors = 2\n'
FROM_A_TERMINAL = '[[job_class]]\nclass = "interactive"\nno_batch_script = true\n'


def test_what_a_reserve_would_have_done_and_its_price(
    words: Typed, tmp_path: Path, site: FakeCluster
) -> None:
    text = (tmp_path / "site.toml").read_text().replace('"sjf"', '"reserve:2"')
    (tmp_path / "site.toml").write_text(text + RESERVE + FROM_A_TERMINAL)
    site.change(2, batch=0)
    assert words("run", "--once")[0] == 0
    assert words("run", "--once")[0] == 0
    found = words.json("shadow-report", "--since", "now-3days", "--moved", "1")
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
    status, out, _ = words("shadow-report", "--since", "now-3days")
    assert status == 0
    assert "6 processors at the lowest; changes: 2 lowered; lifted for wide jobs: 0" in out
    assert "Price of the reserve, compared with the same order without it: batch: mean wait" in out
    status, out, _ = words("audit", "--event", "would_limit", "--json")
    assert [line["new"] for line in json.loads(out)["lines"]] == [6, 6]
    assert words("audit", "--event", "would_limit")[0] == 0


def test_the_price_is_that_of_the_limit_with_the_bounds_of_the_site(
    words: Typed, tmp_path: Path, site: FakeCluster
) -> None:
    text = (tmp_path / "site.toml").read_text().replace('"sjf"', '"reserve:2"')
    # at each decision no job has come for so long that no limit is ever set
    idle = f"{RESERVE}idle_minutes = 0.0000001\n"
    (tmp_path / "site.toml").write_text(text + idle + FROM_A_TERMINAL)
    site.change(2, batch=0)
    assert words("run", "--once")[0] == 0
    price = words.json("shadow-report", "--since", "now-3days", "--moved", "1")["prediction"][
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
