"""The forecast service: its history, its orders, and scores made once for each forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.configuration.reading import read_configuration
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue, write_queue
from slurm_rl_plugin.errors import BatchSystemUnavailable, ConfigurationError, SlurmRLError
from slurm_rl_plugin.forecasts.live.forecast_pages import ForecastPages
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.sources import own_order
from slurm_rl_plugin.services import forecast_service
from slurm_rl_plugin.services.forecast_service import (
    ForecastService,
    OwnHistory,
    build_orders,
)
from slurm_rl_plugin.units import DAY, HOUR
from tests.unit.forecasts.live_site import (
    BEGIN,
    busy_look,
    forecaster,
    last_days,
    live_site,
)
from tests.unit.forecasts.test_kept_forecasts import given


def test_a_history_that_cannot_be_read_is_tried_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm-rl.toml").write_text(f'[forecast]\nlog = "{tmp_path}/none.log"\n')
    history = OwnHistory(
        configuration=read_configuration(tmp_path / "slurm-rl.toml"), kind=BATCH_SYSTEMS["slurm"]
    )
    clock, asked = [0.0], list[float]()
    monkeypatch.setattr(forecast_service.time, "monotonic", lambda: clock[0])
    log = OwnHistory._log
    monkeypatch.setattr(OwnHistory, "_log", lambda *given: (asked.append(clock[0]), log(*given))[1])
    monkeypatch.setattr(OwnHistory, "_machine", lambda self: None)
    for clock[0] in (0.0, 30.0, 61.0):
        assert len(history.known(4).log) == 0
    assert asked == [0.0, 61.0]


@pytest.mark.parametrize("error", [BatchSystemUnavailable("no answer"), ConfigurationError("odd")])
def test_a_machine_that_is_not_told_leaves_a_history_of_processors(
    tmp_path: Path, error: SlurmRLError
) -> None:
    def machine(seconds: float) -> Machine:
        del seconds
        raise error

    (tmp_path / "slurm-rl.toml").write_text("")
    history = OwnHistory(
        configuration=read_configuration(tmp_path / "slurm-rl.toml"),
        kind=replace(BATCH_SYSTEMS["slurm"], machine=machine, lacks=lambda environment: ""),
    )
    assert history._machine() is None


@pytest.mark.parametrize(("fallback", "is_own"), [("site", True), ("fifo", False)])
def test_while_the_policy_is_not_used_the_order_is_that_of_its_fallback(
    tmp_path: Path, fallback: str, is_own: bool
) -> None:
    (tmp_path / "slurm-rl.toml").write_text(f'[policy]\nmodel = "sjf"\nfallback = "{fallback}"\n')
    orders = build_orders(read_configuration(tmp_path / "slurm-rl.toml"))
    assert (orders["fallback"] is own_order) == is_own


@dataclass(slots=True)
class Started:
    """A service that has just started, and what it forecast."""

    service: ForecastService
    #: Of each forecast: rows kept, whether it is calibrated, its note, and the runs known.
    told: list[tuple[int, bool, str, int]] = field(default_factory=list)


def started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: Callable[[float], bool] = lambda days: True,
) -> Started:
    """A service whose accounting answers a query of some days, or does not."""
    site = live_site()
    now = busy_look(site, last_days(site, 2.0, HOUR))
    (tmp_path / "slurm-rl.toml").write_text("[forecast]\nport = 0\n")
    configuration = read_configuration(tmp_path / "slurm-rl.toml")
    look = QueueOnFile(snapshot=site.queue(now, now - HOUR), mode="shadow", policy="x")
    write_queue(tmp_path / "queue.npz", look)

    def log(self: OwnHistory, days: float, seconds: float) -> JobLog:
        if not answers(days):
            raise ConfigurationError("slurmdbd does not answer")
        known = site.history(now).log
        return known.select(known.start + known.run_time > now - days * DAY)

    monkeypatch.setattr("slurm_rl_plugin.forecasts.live.forecaster._LOOKS", 4)
    monkeypatch.setattr(OwnHistory, "_log", log)
    monkeypatch.setattr(OwnHistory, "_machine", lambda self: None)
    kept = forecaster(tmp_path, draws=2)
    service = ForecastService(
        configuration=configuration,
        forecaster=kept,
        orders={},
        history=OwnHistory(configuration=configuration, kind=None, early=[0.0, 2.0]),  # type: ignore[arg-type]
        queue_file=tmp_path / "queue.npz",
    )
    made = Started(service)
    monkeypatch.setattr(
        "slurm_rl_plugin.services.forecast_service.ForecastPages.renew",
        lambda self, queue: made.told.append(
            (
                len(kept.kept.rows(now)),
                queue.calibrated,
                queue.note,
                len(service._known_log().log),
            )
        ),
    )
    return made


def test_scores_and_metrics_cost_nothing_but_a_forecast_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = started(tmp_path, monkeypatch).service
    service.history.early.clear()
    service._looked_back = True  # calibration is another test's
    kept, loaded, served = service.forecaster.kept, list[float](), dict[str, Any]()
    now = read_queue(service.queue_file).snapshot.now
    kept.keep(given([9_000_000], now - HOUR, start=now - 60.0))
    rows = KeptForecasts.rows

    def counted(self: KeptForecasts, since: float, **more: Any) -> Any:
        loaded.append(since)
        return rows(self, since, **more)

    def serve(pages: ForecastPages, path: Path, section: str) -> None:
        served.update(pages=pages)

    monkeypatch.setattr(KeptForecasts, "rows", counted)
    monkeypatch.setattr(forecast_service, "serve_pages_locally", serve)
    service.serve()
    pages = served["pages"]
    assert not any(map(pages.is_token, ("", "Bearer", "Bearer ")))  # no token is configured
    assert pages.scores()["started"] == 1  # those of before the start
    assert service.renew()
    count = len(kept.rows(0.0))
    loaded.clear()
    assert pages.scores()["given"] == count > 1
    assert b"slurm_rl_forecasts_started 1.0" in pages.metrics()[0]
    assert loaded == []


def test_it_answers_from_what_is_known_and_calibrates_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits, by the newest days, by all of accounting; then with calibrated bands."""
    made = started(tmp_path, monkeypatch)
    while made.service.work():
        pass
    rows, calibrated, notes, known = zip(*made.told, strict=True)
    assert calibrated == (False, False, False, True)
    assert [*known] == [*sorted(set(known[:3])), known[2]]  # each stage knows more than the last
    assert known[0] == 0
    assert rows[:3] == (0, 0, 0)  # forecasts from a part of what can be known are not scored
    assert rows[3] > 0
    assert "as long as their limits. not yet calibrated" in notes[0]
    assert "accounting is still being read" in notes[1]
    assert "past moments" in notes[2]
    assert "calibrated" not in notes[3]


@pytest.mark.parametrize("newest", [False, True])
def test_accounting_that_fails_at_the_start_is_tried_again_before_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: bool
) -> None:
    """The forecasts meanwhile are neither kept nor marked as calibrated, after a restart too."""
    clock, is_up = [1000.0], [False]
    monkeypatch.setattr(forecast_service.time, "monotonic", lambda: clock[0])
    made = started(tmp_path, monkeypatch, lambda days: is_up[0] or (newest and days == 2.0))
    made.service.forecaster.kept.keep(
        given(list(range(9_000_000, 9_000_040)), BEGIN, start=BEGIN + HOUR)
    )
    while made.service.work():
        pass
    rows, calibrated, notes, _ = zip(*made.told, strict=True)
    assert calibrated == (False, False, False)
    assert rows == (0, 0, 0)
    assert "all of accounting could not be read yet" in notes[-1]
    assert not made.service.forecast_once()  # the exit code of --once
    is_up[0], clock[0] = True, clock[0] + 61.0
    while made.service.work():
        pass
    assert made.service.renew()
    assert made.service.history.is_whole
    rows, calibrated, notes, _ = made.told[-1]
    assert calibrated
    assert "calibrated" not in notes
    assert rows > 0
