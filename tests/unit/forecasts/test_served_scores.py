"""Scores are made once for each forecast of the queue, whoever asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.configuration.reading import read_configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile, write_queue
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.sources import rule_order
from slurm_rl_plugin.services.forecast_service import ForecastService, Orders, OwnHistory
from slurm_rl_plugin.units import HOUR
from tests.unit.forecasts.foretelling import busy_look, forecaster
from tests.unit.forecasts.live_site import last_days, live_site
from tests.unit.forecasts.test_kept_forecasts import given


def test_scores_and_metrics_cost_nothing_but_a_forecast_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = live_site()
    now = busy_look(site, last_days(site, 2.0, HOUR))
    (tmp_path / "slurm-rl.toml").write_text("[forecast]\nport = 0\n")
    configuration = read_configuration(tmp_path / "slurm-rl.toml")
    look = QueueOnFile(snapshot=site.queue(now, now - HOUR), mode="shadow", policy="x")
    write_queue(tmp_path / "queue.npz", look)
    monkeypatch.setattr(OwnHistory, "known", lambda self, processors: site.history(now))
    made = forecaster(tmp_path, draws=2)
    made.kept.keep(given([9_000_000], now - HOUR, start=now - 60.0))
    service = ForecastService(
        configuration=configuration,
        forecaster=made,
        orders=Orders(policy=rule_order("fifo"), fallback=rule_order("fifo")),
        history=OwnHistory(configuration=configuration, kind=None),  # type: ignore[arg-type]
        queue_file=tmp_path / "queue.npz",
        progress_bar=progress_bar,
    )
    loaded = list[float]()
    rows = KeptForecasts.rows

    def counted(self: KeptForecasts, since: float, **more: Any) -> Any:
        loaded.append(since)
        return rows(self, since, **more)

    monkeypatch.setattr(KeptForecasts, "rows", counted)
    served: dict[str, Any] = {}
    monkeypatch.setattr(
        "slurm_rl_plugin.services.forecast_service.serve_pages_locally",
        lambda pages, path, section: served.update(pages=pages),
    )
    service.serve()
    pages = served["pages"]
    assert pages.scores()["started"] == 1  # those of before the start
    assert service.renew()
    loaded.clear()
    assert pages.scores()["given"] == 1 + np.count_nonzero(service.pages._queue.place >= 0)  # type: ignore[union-attr]
    assert b"slurm_rl_forecasts_started 1.0" in pages.metrics()[0]
    assert loaded == []
