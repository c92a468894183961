"""`slurm-rl experiment`: what begins one and what does not, and the service that watches it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slurm_rl_plugin.domain.switchback import OURS, Declaration
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.evaluation.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.evaluation.experiment import ExperimentSite, ExperimentWatch
from slurm_rl_plugin.hook.experiment.turns import (
    OVER,
    RUNNING,
    STEPPED_BACK,
    ExperimentFiles,
    ExperimentStanding,
    InForce,
)
from slurm_rl_plugin.papers.switchback.clusters import (
    DrawnTrial,
    declared,
    equal_models,
    reversed_model,
)
from slurm_rl_plugin.what_if.switchback.block_costs import ReplayedCluster
from tests.architecture.markdown_documents import TOP
from tests.functional.fake_site import FakeSite
from tests.functional.typed import rows_of


@dataclass
class DrawnSite:
    """A drawn cluster in place of a site: its accounting and its looks answer at once."""

    files: ExperimentFiles
    trial: DrawnTrial
    experiment: Declaration
    now: float = 0.0
    away: bool = False

    def declared(self) -> tuple[Declaration, ExperimentStanding]:
        return self.files.declared(), self.files.stands()

    def found(self, experiment: Declaration) -> dict[str, Any] | None:
        return DeclaredExperiment.found(cast("DeclaredExperiment", self), experiment)

    def look(self, since: float = 0.0) -> Any:
        if self.away:
            raise BatchSystemUnavailable("accounting does not answer")
        return SimpleNamespace(now=self.now) if self.now >= since else None

    def cluster(self, site: Any, candidate: str = "") -> ReplayedCluster:
        del site, candidate
        return self.trial.replayed(self.trial.starts(self.experiment.blocks))


def begun(folder: Path, trial: DrawnTrial, experiment: Declaration) -> DrawnSite:
    files = ExperimentFiles(state_file=folder / "state.json")
    standing = ExperimentStanding(state=RUNNING, reason="", at=experiment.begin)
    files.declare(experiment, standing)
    return DrawnSite(files=files, trial=trial, experiment=experiment)


def of_equals(folder: Path) -> tuple[Declaration, DrawnSite]:
    """An experiment of two equal models."""
    experiment = declared(1003, 4)
    return experiment, begun(folder, equal_models(3, 4), experiment)


def look_at(site: DrawnSite, now: float, misdelivered: float = 0.0) -> ExperimentStanding:
    """What the service says of it at a time; our order was in force in all its blocks.

    What went to the wrong account grew to `misdelivered` since the begin.
    """
    watch = ExperimentWatch(site=cast("ExperimentSite", site))
    site.now = now
    site.files.journal.unlink(missing_ok=True)
    step = site.experiment.day / 200.0
    moment = site.experiment.begin
    while moment < now:
        block = site.experiment.block_at(moment)
        arm = "" if block is None else block.arm
        mode = "active" if arm == OURS else "shadow"
        wrong = misdelivered * (moment > site.experiment.begin)
        site.files.note(InForce(time=moment, arm=arm, mode=mode, misdelivered=wrong))
        moment += step
    watch.look(now)
    return site.files.stands()


def test_it_steps_back_from_harm_and_a_restarted_service_goes_on(tmp_path: Path) -> None:
    experiment = declared(1001, 4)
    site = begun(tmp_path, reversed_model(1, 4), experiment)
    for block in experiment.blocks:
        standing = look_at(site, block.end + 1.0)  # another service each time
        if standing.state != RUNNING:
            break
    assert standing.state == STEPPED_BACK
    assert "ours" in standing.reason
    assert site.files.found()["blocks"] == experiment.closed(site.now)
    later = look_at(site, experiment.end + 1.0)
    assert (later.state, later.at) == (STEPPED_BACK, standing.at)  # a person says how to go on


def test_where_nothing_is_gained_it_says_so_and_stops(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    assert look_at(site, experiment.blocks[3].end + 1.0).state == RUNNING
    standing = look_at(site, experiment.end + 1.0)
    assert standing.state == OVER
    assert "nothing was gained" in standing.reason


def test_it_steps_back_where_too_much_goes_to_the_wrong_account(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    assert look_at(site, experiment.blocks[0].end + 1.0, 0.14).state == RUNNING
    standing = look_at(site, experiment.blocks[1].end + 1.0, 0.18)
    assert standing.state == STEPPED_BACK
    assert standing.reason.startswith("18% of the last fortnight's service")


def test_what_a_block_cost_is_never_made_anew(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    look_at(site, experiment.blocks[2].end + 1.0)
    before = site.files.found()
    site.trial = equal_models(4, 4)  # as if accounting had other jobs now
    look_at(site, experiment.blocks[4].end + 1.0)
    after = site.files.found()
    assert after["costs"]["measured"][:3] == before["costs"]["measured"]


def test_findings_of_an_earlier_experiment_are_not_taken(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    look_at(site, experiment.blocks[2].end + 1.0)
    kept = site.files.findings.read_text()
    again = declared(1004, 4)
    site = begun(tmp_path, equal_models(3, 4), again)
    assert site.files.found() is None
    site.files.findings.write_text(kept)  # a look that took minutes ends only now
    assert look_at(site, again.blocks[3].end + 1.0).looked == again.begin
    assert site.files.findings.read_text() == kept


def test_an_experiment_that_was_stopped_while_it_looked_stays_stopped(tmp_path: Path) -> None:
    experiment = declared(1001, 4)
    site = begun(tmp_path, reversed_model(1, 4), experiment)
    stopped = ExperimentStanding(state="stopped", reason="by hand", at=1.0)
    look_for = site.cluster

    def stop_meanwhile(looked: Any, candidate: str = "") -> ReplayedCluster:
        assert not candidate
        site.files.stand(stopped)
        return look_for(looked)

    site.cluster = stop_meanwhile  # type: ignore[method-assign]
    assert look_at(site, experiment.end + 1.0).reason == "by hand"
    assert site.files.found() is None


def test_orders_that_were_not_in_force_end_it(tmp_path: Path) -> None:
    experiment = declared(1003, 8)
    site = begun(tmp_path, equal_models(3, 8), experiment)
    watch = ExperimentWatch(site=cast("ExperimentSite", site))
    site.now = experiment.blocks[12].end
    watch.look(site.now + 1.0)  # the daemon has noted nothing at all
    assert site.files.stands().state == STEPPED_BACK
    assert "in force in 0%" in site.files.stands().reason


def test_without_accounting_nobody_watches(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    site.away = True
    late = experiment.blocks[0].end + 2.0 * experiment.day / 24.0
    assert look_at(site, late).looked == experiment.begin
    site.away = False
    assert look_at(site, late + 1.0).looked == late + 1.0


def test_a_clock_that_is_set_back_leaves_it_watched(tmp_path: Path) -> None:
    experiment, site = of_equals(tmp_path)
    watch = ExperimentWatch(site=cast("ExperimentSite", site))
    ahead, right = experiment.begin + experiment.day, experiment.blocks[0].end + 1.0
    site.now, site.away = right, True
    watch.look(ahead)  # a wrong clock ends no block
    assert site.files.stands().looked == experiment.begin
    site.away = False
    watch.look(right)  # and is tried again at once
    assert (site.files.found()["blocks"], site.files.stands().looked) == (1, right)
    site.files.looked(ahead)
    watch.look(right + 1.0)
    assert site.files.stands().looked == right + 1.0


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    empty_site.configure("hook", audit_file="")
    empty_site.configure("shares", physics=1)
    return empty_site


def declare(site: FakeSite) -> ExperimentFiles:
    experiment = declared(1, 2, math.inf)
    return begun(site.folder, cast("DrawnTrial", None), experiment).files


def test_the_page_for_the_committee_tells_who_waited(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = declared(1003, 4)
    drawn = begun(site.folder, reversed_model(3, 4), experiment)
    look_at(drawn, experiment.blocks[9].end + 1.0)
    accounts = ("physics", "<b>biology", "chemistry", "law")
    look = SimpleNamespace(now=drawn.now, prepared=SimpleNamespace(accounts=accounts, machine=None))
    monkeypatch.setattr(ExperimentSite, "look", lambda _: look)
    monkeypatch.setattr(
        ExperimentSite, "cluster", lambda _, looked, candidate: drawn.cluster(looked, candidate)
    )
    site("experiment", "report", "--committee", "waits.html")
    text = (site.folder / "waits.html").read_text()
    assert "physics" in text
    assert "&lt;b&gt;biology" in text
    assert "<b>biology" not in text
    assert '<table class="bars stacked">' in text


def test_it_is_begun_once_and_told_while_it_is_there(site: FakeSite) -> None:
    for action in ("status", "report", "stop"):
        assert "slurm-rl experiment start" in site.refused("experiment", action)
    files = declare(site)
    assert "declared already" in site.refused("experiment", "start")
    page = ("--committee", "none/page.html")
    assert "there is no such folder" in site.refused("experiment", "report", *page)
    files.stand(ExperimentStanding(state=STEPPED_BACK, reason="harm.", at=1.0))
    said = site.failing("experiment", "status")
    assert "stepped back" in said
    assert "harm." in said


@rows_of("experiment start")
def test_what_cannot_begin_is_refused(site: FakeSite, words: str, said: str) -> None:
    assert said in site.refused("experiment", "start", *words.split())


def test_a_candidate_is_declared_against_the_model_in_service(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_rl_plugin.evaluation.experiment._foretold", lambda *_: 0.9)
    assert "another" in site.refused("experiment", "start", "--candidate", "sjf")
    model = TOP / "policy_models" / "default.onnx"
    assert site.json("experiment", "start", "--candidate", model)["foretold"] == 0.9
    found = ExperimentFiles(state_file=site.state_file).declared()
    assert (found.candidate, found.champion) == (str(model), "sjf")
    assert found.model_sha256 == hashlib.sha256(model.read_bytes()).hexdigest()
    assert "against the model in service (sjf)" in site.out("experiment", "status")


def test_an_experiment_that_was_declared_meanwhile_is_not_replaced(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*_: Any) -> float:
        declare(site)
        return 0.9

    monkeypatch.setattr("slurm_rl_plugin.evaluation.experiment._foretold", meanwhile)
    assert "declared already" in site.refused("experiment", "start")
    assert ExperimentFiles(state_file=site.state_file).declared() == declared(1, 2, math.inf)


def test_stopped_it_is_the_sites_until_it_is_put_away(site: FakeSite) -> None:
    files = declare(site)
    site.out("experiment", "stop", "--reason", "maintenance")
    assert files.stands().reason == "maintenance"
    document = site.json("experiment", "status")
    assert (document["state"], document["turn"]) == ("stopped", "")
    site.out("experiment", "stop", "--as-configured")
    assert files.declared() is None
    assert list(site.folder.glob("state.json.experiment.*"))
    files = declare(site)
    site.out("experiment", "stop", "--reason", "no UTF-8: \udcff\n")
    assert files.stands().reason.encode().startswith(b"no UTF-8: ")  # the page of a committee
    assert files.stands().reason.isprintable()


def test_it_can_be_stopped_whatever_is_wrong_with_the_configuration(site: FakeSite) -> None:
    files = declare(site)
    site.configure("no_such_section", key=1)
    site.refused("experiment", "status")
    assert "no_such_section" in site.failing("experiment", "stop", code=0)
    assert files.stands().state == "stopped"
    (site.folder / "site.toml").write_text("[hook\n")
    assert "give --state-file" in site.failing("experiment", "stop", code=2)
    site.out("experiment", "stop", "--state-file", site.state_file, "--as-configured")
    assert files.declared() is None


@pytest.mark.parametrize("content", ["{", "{}", '{"floors": 1}'])
def test_findings_that_cannot_be_read_are_told(site: FakeSite, content: str) -> None:
    files = declare(site)
    files.findings.write_text(content)
    assert "remove it" in site.refused("experiment", "status")
