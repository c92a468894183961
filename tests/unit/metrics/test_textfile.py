from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin.metrics.textfile import MetricsTextfile


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("slurm_rl_up", "", registry=registry).set(1)
    return registry


def test_the_file_is_whole_and_others_may_read_it(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    path = tmp_path / "slurm-rl.prom"
    textfile = MetricsTextfile(path=path, registry=registry)
    path.write_text("half of somethi")
    textfile.write()
    (family,) = text_string_to_metric_families(path.read_text())
    assert family.samples[0].value == 1
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_a_line_in_the_log(
    tmp_path: Path, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    textfile = MetricsTextfile(path=tmp_path / "gone" / "slurm-rl.prom", registry=registry)
    textfile.write()
    assert "textfile=failed" in caplog.text
    textfile.remove()


def test_the_file_goes_with_the_daemon(tmp_path: Path, registry: CollectorRegistry) -> None:
    textfile = MetricsTextfile(path=tmp_path / "slurm-rl.prom", registry=registry)
    textfile.write()
    textfile.remove()
    textfile.remove()
    assert list(tmp_path.iterdir()) == []
