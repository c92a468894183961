"""The programs that measure live forecasts and advice, on little."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.forecasts import advised_starts, live_site
from slurm_rl_plugin.accounting.swf.writer import write_swf
from tests.unit.forecasts.foretelling import forecaster
from tests.unit.forecasts.live_site import live_site as small_site


def test_a_live_site_is_scored(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look back at its past, which the tests of the forecaster have."""
    monkeypatch.setattr(live_site, "looked_back", lambda folder, site, now: forecaster(folder))
    assert live_site.main(["--days", "0.2"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["given"] > 0
    assert scores["gone"] == 0


def test_advice_is_tried_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.swf"
    site = small_site(6.0, load=1.0).log
    start = site.submit[0]
    told = replace(site, submit=site.submit - start, start=site.start - start)
    write_swf(log, replace(told, eligible=told.submit), comments=["MaxProcs: 32"])
    assert advised_starts.main([str(log), "--jobs", "4"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jobs"] == 4
    assert found["limit"]["asked"] + found["processors"]["asked"] > 0


def test_what_advice_was_worth_is_counted() -> None:
    one = {"kind": "processors", "killed": False, "foretold": 200.0, "interval": [50.0, 300.0]}
    found = [
        one | {"speaks": True, "true": 100.0},
        one | {"speaks": True, "true": -100.0},
        one | {"speaks": False, "true": 1.0},
        {"kind": "limit", "killed": True},
    ]
    told = advised_starts.summed(found)
    assert told["limit"] == {"asked": 1, "killed": 1, "spoke": 0}
    assert told["processors"]["right"] == 0.5
    assert told["processors"]["median_factor"] == pytest.approx(2.0)
    assert told["processors"]["inside"] == 0.5
