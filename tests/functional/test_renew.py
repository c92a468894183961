"""`slurm-rl renew`: gain watched week by week, a candidate trained, tried, adopted or not."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.what_if import (
    experiment_start,
    gain_watch,
    model_in_service,
    renewal,
)
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.gain_watch import GainWatch
from slurm_rl_plugin.cli.what_if.renewal_record import RenewalRecord, Renewed
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.domain.switchback import OURS, SITE
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.experiment.files import (
    OVER,
    RUNNING,
    STEPPED_BACK,
    ExperimentFiles,
    ExperimentStanding,
)
from slurm_rl_plugin.hook.experiment.model_gain import GainFile, KeptGain
from slurm_rl_plugin.papers.switchback.held_in_turns import DrawnTrial, preferring_short
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

#: Weeks of the drawn cluster.
WEEKS = 36


@dataclass
class DrawnWeeks:
    """A drawn cluster in place of a site, whose clock the test sets."""

    trial: DrawnTrial
    now: float
    away: bool = False
    candidate: float = 2.0
    gone: bool = False

    def look_of(self, since: float = -math.inf) -> Any:
        if self.away:
            raise BatchSystemUnavailable("accounting does not answer")
        return SimpleNamespace(now=self.now) if self.now >= since else None

    def cluster_of(self, look: Any, candidate: str = "") -> ReplayedCluster:
        """Ours prefers short jobs until the gain is gone; a candidate as strongly as is said."""
        del look
        known = dict(self.trial.known)
        if candidate:
            known = dict(preferring_short(1, WEEKS * 7, self.candidate).known)
        elif self.gone:
            known[OURS] = known[SITE]
        return replace(self.trial, known=known).replayed(self.trial.starts(()))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> DrawnWeeks:
    found = DrawnWeeks(trial=preferring_short(1, WEEKS * 7, 2.0), now=14 * DAY + 22 * WEEK)
    monkeypatch.setattr(ExperimentSite, "look", found.look_of)
    monkeypatch.setattr(ExperimentSite, "cluster", found.cluster_of)
    return found


@pytest.fixture
def site(tmp_path: Path) -> list[str]:
    folder = tmp_path / "models"
    folder.mkdir()
    shipped = Path("policy_models").resolve()
    for ending in ("onnx", "json", "md"):
        shutil.copyfile(shipped / f"default.{ending}", folder / f"present.{ending}")
        shutil.copyfile(shipped / f"responsive-reserve.{ending}", folder / f"new.{ending}")
    (tmp_path / "site.toml").write_text(
        f'[hook]\nmode = "active"\nstate_file = "{tmp_path}/state.json"\naudit_file = ""\n'
        f'disable_file = "{tmp_path}/DISABLE"\n[shares]\nphysics = 1\n'
        f'[policy]\nmodel = "{folder}/present.onnx"\n'
        f'[forecast]\nqueue_file = "{tmp_path}/queue"\n'
    )
    return ["--config", str(tmp_path / "site.toml")]


def watch_of(tmp_path: Path) -> GainWatch:
    configuration = read_configuration(tmp_path / "site.toml")
    return GainWatch(site=ExperimentSite(configuration=configuration))


def lost(tmp_path: Path, site: list[str]) -> GainFile:
    """The gain of the model in service is said to be lost."""
    assert site
    file = watch_of(tmp_path).file
    policy, sha256 = watch_of(tmp_path).site.model()
    file.write(
        KeptGain(
            policy=policy,
            model_sha256=sha256,
            since=1e12,
            reference=tuple((float(week), 2.0, 1.0) for week in range(12)),
            promised=0.5,
            lately=0.9,
            evidence=1.2,
            lost_at=1.0,
        )
    )
    return file


def renew(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["renew", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_watch_begins_with_what_was_gained_and_adds_each_week(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks
) -> None:
    assert site
    watch = watch_of(tmp_path)
    drawn.now -= 6 * WEEK
    kept = watch.look_now(drawn.now)
    assert kept is not None
    first = len(kept.reference)
    assert first == 9  # a lead of seven weeks is before each
    assert kept.promised < 1.0
    drawn.now += 5.5 * WEEK
    again = watch.look_now(drawn.now)
    assert again is not None
    assert again.reference[:first] == kept.reference
    assert len(again.reference) == 12  # accounting told of few: the first weeks in service too
    assert again.since == kept.since + 3 * WEEK
    assert [row[0] for row in again.later] == [again.since, again.since + WEEK]
    assert watch.file.read() == again
    assert watch.look_now(drawn.now) == again  # nothing is due


def test_weeks_that_a_clock_took_for_over_are_watched_when_they_are(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks
) -> None:
    assert site
    watch = watch_of(tmp_path)
    kept = watch.look_now(drawn.now)
    assert kept is not None
    to_come = tuple((kept.since + week * WEEK, 0.0, 0.0) for week in range(500))
    watch.file.write(replace(kept, later=to_come))
    drawn.now += 2.5 * WEEK
    again = watch.look_now(drawn.now)
    assert again is not None
    assert [row[0] for row in again.later] == [kept.since, kept.since + WEEK]
    drawn.now += WEEK
    later = watch.look_now(drawn.now)
    assert later is not None
    assert later.later[2][1] > 0.0  # what really waited


def test_a_gain_that_is_gone_is_told_once(
    tmp_path: Path,
    site: list[str],
    drawn: DrawnWeeks,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert site
    watch = watch_of(tmp_path)
    watch.look_now(drawn.now)
    drawn.gone = True
    monkeypatch.setattr("slurm_rl_plugin.what_if.drift.evidence.BOUND", 4.0)  # weeks are few here
    for _ in range(7):
        drawn.now += WEEK
        kept = watch.look_now(drawn.now)
    assert kept is not None
    assert kept.lost_at is not None
    assert caplog.text.count("gain=lost") == 1


def test_without_accounting_it_says_so_and_forgets_nothing(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["renew", *site, "--watch"]) == 0
    kept = watch_of(tmp_path).file.read()
    drawn.away = True
    drawn.now += 30 * WEEK  # by the real clock weeks are due
    assert main(["renew", *site, "--watch"]) == 1
    assert "accounting does not answer" in capsys.readouterr().err
    assert watch_of(tmp_path).file.read() == kept


def test_a_gain_as_promised_asks_for_nothing(
    site: list[str], drawn: DrawnWeeks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drawn
    assert renew(capsys, *site, "--check")["step"] == "unknown"  # nobody has looked
    assert renew(capsys, *site)["step"] == "as promised"
    assert renew(capsys, *site, "--check")["step"] == "as promised"


def test_a_model_of_the_package_cannot_be_replaced(
    site: list[str], drawn: DrawnWeeks, capsys: pytest.CaptureFixture[str]
) -> None:
    package = (*site, "--set", "policy.model=default")
    assert main(["renew", *package, "--watch"]) == 0  # it is watched all the same
    assert main(["renew", *package, "--check"]) == 0
    assert main(["renew", *package, "--now"]) == 2
    assert "a file of its own" in capsys.readouterr().err


def test_a_day_that_is_none_is_refused_before_anything_is_trained(
    site: list[str], drawn: DrawnWeeks, training: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert drawn
    assert main(["renew", *site, "--now", "--day", "1"]) == 2
    assert "--day 1: give 48 to 86400 seconds" in capsys.readouterr().err
    assert not training


def test_a_check_trains_nothing(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drawn
    lost(tmp_path, site)
    found = renew(capsys, *site, "--check")
    assert (found["step"], found["promised"], found["lately"]) == ("lost", 0.5, 0.9)


def test_in_shadow_mode_nothing_is_trained(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drawn
    lost(tmp_path, site)
    assert main(["renew", *site, "--set", "hook.mode=shadow"]) == 2
    assert "mode is shadow" in capsys.readouterr().err


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    trained: list[str] = []

    def candidate(*given: Any) -> Path:
        trained.append(str(given[1].weeks))
        return tmp_path / "models" / "new.onnx"

    monkeypatch.setattr(renewal, "trained_candidate", candidate)
    monkeypatch.setattr(experiment_start, "_foretold", lambda *_: 0.9)
    return trained


def test_a_candidate_that_is_no_better_is_not_tried(
    tmp_path: Path,
    site: list[str],
    drawn: DrawnWeeks,
    training: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = lost(tmp_path, site)
    drawn.candidate = 0.0
    found = renew(capsys, *site)
    assert (found["step"], found["ratio"]) == ("no better", 1.0)
    assert training == ["26"]
    assert file.read() is None  # what it gains now is what is promised
    assert not ExperimentFiles(state_file=tmp_path / "state.json").declaration.exists()


def tried(tmp_path: Path, site: list[str], capsys: pytest.CaptureFixture[str]) -> ExperimentFiles:
    """An experiment of a candidate that has begun."""
    lost(tmp_path, site)
    found = renew(capsys, *site, "--weeks", "12")
    assert found["step"] == "declared"
    assert found["ratio"] < 1.0
    return ExperimentFiles(state_file=tmp_path / "state.json")


def test_a_better_candidate_is_tried_against_the_model_in_service(
    tmp_path: Path,
    site: list[str],
    drawn: DrawnWeeks,
    training: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert drawn
    files = tried(tmp_path, site, capsys)
    declared = files.declared()
    assert declared is not None
    assert (declared.candidate, declared.champion) == (
        str(tmp_path / "models" / "new.onnx"),
        "present",
    )
    assert training == ["12"]
    assert renew(capsys, *site)["step"] == "experiment"
    assert main(["experiment", "status", *site]) == 0
    assert "against the model in service (present)" in capsys.readouterr().out


@pytest.mark.usefixtures("drawn", "training")
def test_an_experiment_that_was_declared_meanwhile_is_not_replaced(
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = tried(tmp_path, site, capsys).declaration.read_bytes()
    (tmp_path / "state.json.experiment").unlink()

    def meanwhile(*_: Any) -> float:
        (tmp_path / "state.json.experiment").write_bytes(first)
        return 0.9

    monkeypatch.setattr(experiment_start, "_foretold", meanwhile)
    assert main(["experiment", "start", *site]) == 2
    assert "declared already" in capsys.readouterr().err
    assert (tmp_path / "state.json.experiment").read_bytes() == first


@pytest.mark.usefixtures("drawn", "training")
@pytest.mark.parametrize("ahead", [0.0, 365 * DAY])
def test_a_rest_that_a_wrong_clock_began_is_none(
    ahead: float, tmp_path: Path, site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lost(tmp_path, site)
    record = RenewalRecord(state_file=tmp_path / "state.json")
    record.write(Renewed(refused=time.time() + ahead - DAY, why="no better."))  # noqa: TID251
    assert renew(capsys, *site)["step"] == ("declared" if ahead else "rests")


@pytest.mark.usefixtures("drawn")
def test_a_training_that_was_killed_is_not_begun_again_each_night(
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost(tmp_path, site)

    def killed(*_: Any) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(renewal, "trained_candidate", killed)
    main(["renew", *site])
    capsys.readouterr()
    found = renew(capsys, *site)
    assert found["step"] == "rests"
    assert "The try was cut short." in found["sentence"]


def gain_of(gained: str | None) -> Callable[..., Any]:
    return lambda *_: SimpleNamespace(gain=lambda: gained)


@pytest.mark.parametrize("gained", [True, False])
def test_who_won_is_in_service_afterwards(
    gained: bool,
    tmp_path: Path,
    site: list[str],
    drawn: DrawnWeeks,
    training: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert drawn
    assert not training
    files = tried(tmp_path, site, capsys)
    files.stand(ExperimentStanding(state=OVER, reason="it is over.", at=1.0))
    monkeypatch.setattr(renewal, "kept_trial", gain_of("it is better." if gained else None))
    models = tmp_path / "models"
    before, candidate = (models / each for each in ("present.onnx", "new.onnx"))
    was, new = before.read_bytes(), candidate.read_bytes()
    told: list[int] = []
    monkeypatch.setattr(signal, "SIGHUP", signal.SIGUSR1)
    earlier = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    try:
        with only_daemon(tmp_path / "state.json"):
            found = renew(capsys, *site)
    finally:
        signal.signal(signal.SIGUSR1, earlier)
    assert not files.declaration.exists()
    assert found["step"] == ("adopted" if gained else "kept")
    assert before.read_bytes() == (new if gained else was)
    kept = list(models.glob("present.until-*.onnx"))
    assert [each.read_bytes() for each in kept] == ([was] if gained else [])
    assert bool(told) == gained
    if gained:
        manifest = json.loads((models / "present.json").read_text())
        assert manifest == json.loads((models / "new.json").read_text())


def won(
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> ExperimentFiles:
    """An experiment whose candidate was better."""
    files = tried(tmp_path, site, capsys)
    files.stand(ExperimentStanding(state=OVER, reason="it is over.", at=1.0))
    monkeypatch.setattr(renewal, "kept_trial", gain_of("it is better."))
    return files


@pytest.mark.usefixtures("drawn", "training")
@pytest.mark.parametrize("changed", ["new", "present"])
def test_another_file_than_was_tried_never_enters(
    changed: str,
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = won(tmp_path, site, capsys, monkeypatch)
    third = Path("policy_models/reactive-grids.onnx").read_bytes()
    (tmp_path / "models" / f"{changed}.onnx").write_bytes(third)
    before = (tmp_path / "models" / "present.onnx").read_bytes()
    assert main(["renew", *site]) == 2
    assert "is not the file that was" in capsys.readouterr().err
    assert (tmp_path / "models" / "present.onnx").read_bytes() == before
    assert files.declaration.exists()


@pytest.mark.usefixtures("drawn", "training")
def test_an_adoption_that_was_cut_short_is_finished(
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    won(tmp_path, site, capsys, monkeypatch)
    models = tmp_path / "models"
    was = {each: (models / f"present.{each}").read_bytes() for each in ("json", "onnx")}
    whole = model_in_service.write_whole

    def full(path: Path, content: bytes) -> None:
        if path.name == "present.onnx":
            raise OSError(28, "No space left on device", str(path))
        whole(path, content)

    monkeypatch.setattr(model_in_service, "write_whole", full)
    assert main(["renew", *site]) == 2
    assert "No space left" in capsys.readouterr().err
    assert (models / "present.onnx").read_bytes() == was["onnx"]
    monkeypatch.setattr(model_in_service, "write_whole", whole)
    found = renew(capsys, *site, code=1)  # no daemon runs here that could be told
    assert found["step"] == "adopted"
    assert "reload it" in found["sentence"]
    (kept,) = models.glob("present.until-*.onnx")
    assert kept.read_bytes() == was["onnx"]
    assert kept.with_suffix(".json").read_bytes() == was["json"]


@pytest.mark.usefixtures("drawn", "training")
def test_what_somebody_else_declared_is_not_adopted(
    tmp_path: Path,
    site: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    won(tmp_path, site, capsys, monkeypatch)
    (tmp_path / "state.json.renewal").unlink()
    assert renew(capsys, *site, code=1)["step"] == "person"


@pytest.mark.usefixtures("drawn", "training")
def test_an_experiment_that_nobody_watches_is_told(
    tmp_path: Path, site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = tried(tmp_path, site, capsys)
    declared = files.declared()
    assert declared is not None
    late = replace(
        declared,
        blocks=tuple(
            replace(each, begin=each.begin - 60 * DAY, end=each.end - 60 * DAY)
            for each in declared.blocks
        ),
    )
    files.declare(late, ExperimentStanding(state=RUNNING, reason="", at=1.0))
    assert "nobody has looked" in renew(capsys, *site, code=1)["sentence"]


@pytest.mark.usefixtures("drawn", "training")
def test_a_candidate_is_protected_as_the_model_in_service(
    tmp_path: Path, site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    present = f"protected:3,0.1:{tmp_path}/models/present.onnx"
    assert renew(capsys, *site, "--now", "--set", f"policy.model={present}")["step"] == "declared"
    declared = ExperimentFiles(state_file=tmp_path / "state.json").declared()
    assert declared is not None
    assert declared.candidate == f"protected:3,0.1:{tmp_path}/models/new.onnx"


@pytest.mark.usefixtures("drawn")
def test_two_of_them_do_not_work_at_once(
    tmp_path: Path, site: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with RenewalRecord(state_file=tmp_path / "state.json").alone():
        assert main(["renew", *site]) == 2
        assert "is at work" in capsys.readouterr().err
        assert main(["renew", *site, "--check"]) == 0
    assert main(["renew", *site]) == 0


def test_after_harm_a_person_has_to_look(
    tmp_path: Path,
    site: list[str],
    drawn: DrawnWeeks,
    training: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert drawn
    assert not training
    files = tried(tmp_path, site, capsys)
    files.stand(ExperimentStanding(state=STEPPED_BACK, reason="harm.", at=1.0))
    found = renew(capsys, *site, code=1)
    assert found["step"] == "person"
    assert "harm." in found["sentence"]


def test_the_training_runs_on_the_log_that_the_site_names(
    tmp_path: Path, site: list[str], drawn: DrawnWeeks, capfd: pytest.CaptureFixture[str]
) -> None:
    assert drawn
    empty = tmp_path / "jobs.swf"  # with one job of the year 2001
    empty.write_text(f"; UnixStartTime: 0\n1 1000000000 0 60 1 {' '.join(['-1'] * 13)}\n")
    with (tmp_path / "site.toml").open("a") as file:
        file.write(f'log = "{empty}"\n')
    lost(tmp_path, site)
    assert main(["renew", *site, "--now", "--steps", "1"]) == 2
    said = capfd.readouterr().err
    assert "jobs.swf@jobs=1:1" in said  # as the training says itself
    assert "no candidate could be trained" in said
    assert main(["renew", *site]) == 0  # it is not tried each day
    assert "is tried again a week later" in capfd.readouterr().out


def test_an_odd_file_of_the_gain_is_none(tmp_path: Path) -> None:
    file = GainFile(path=tmp_path / "gain")
    for content in ("", "{", "[]", "null", '{"since": 1e999}', "[" * 100_000):
        file.path.write_text(content)
        assert file.read() is None
    os.mkfifo(tmp_path / "pipe")
    assert GainFile(path=tmp_path / "pipe").read() is None
    assert gain_watch.REFERENCE > 0
