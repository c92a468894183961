"""Dashboards and rules under deploy ask for what is served, and say what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from slurm_rl_plugin.forecasts.forecast import Scores
from slurm_rl_plugin.metrics.collector import ForecastFamilies
from tests.architecture.markdown_documents import TOP, anchor, headings, section, table_rows
from tests.architecture.test_documents import families, served_name

GRAFANA, PROMETHEUS = TOP / "deploy" / "grafana", TOP / "deploy" / "prometheus"
DASHBOARDS = sorted(GRAFANA.glob("*.json"))
ALERTS = (PROMETHEUS / "alerts.yml").read_text()
TESTS = (PROMETHEUS / "tests" / "alerts_test.yml").read_text()
#: Panels that every Grafana has.
CORE_PANELS = {"row", "stat", "state-timeline", "table", "timeseries"}


def alerts() -> dict[str, str]:
    """Alert -> its lines."""
    parts = re.split(r"^ +- alert: (\w+)$", ALERTS, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def panels(dashboard: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard.read_text())["panels"]
    return found


def test_dashboards_are_what_their_generator_makes(tmp_path: Path) -> None:
    program = GRAFANA / "generate_dashboards.py"
    subprocess.run([sys.executable, str(program), "--output", str(tmp_path)], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in DASHBOARDS}
    assert len(made) == 3


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_anywhere(path: Path) -> None:
    content = json.loads(path.read_text())
    assert content["schemaVersion"] >= 39
    assert "id" not in content
    assert {each["name"] for each in content["templating"]["list"]} >= {"datasource", "cluster"}
    for variable in content["templating"]["list"]:
        if variable["type"] == "query":
            assert (variable["allValue"], variable["current"]["value"]) == (".*", ["$__all"])
    for panel in panels(path):
        assert panel["type"] in CORE_PANELS
        if panel["type"] == "row":
            continue
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            series = re.findall(r"slurm_rl_\w+\{", target["expr"])
            assert len(series) == target["expr"].count('cluster=~"$cluster"') > 0


def forecast_families() -> list[Metric]:
    """Everything that the forecast service serves once forecasts have come true."""
    figures = dict.fromkeys((each.name for each in fields(Scores)), 0.5)
    groups = {each: {"one": figures} for each in ("class", "partition", "horizon")}
    sources = {"replays": {"median_error": 0.1}}
    scores = {"given": 40, "started": 35, "all": figures, "sources": sources, **groups}
    return list(ForecastFamilies(scores, 10.0, 2.0).collect())


def test_metrics_of_forecasts_are_documented_with_type_and_labels() -> None:
    table = section(TOP / "docs" / "forecast-api.md", "Does it hold?")
    documented = {
        re.findall(r"`([^`]+)`", cells[0])[0]: (cells[1], set(re.findall(r"`([^`]+)`", cells[2])))
        for cells in table_rows(table)
    }
    served = {
        each.name: (each.type, {name for sample in each.samples for name in sample.labels})
        for each in forecast_families()
    }
    assert documented == served


def served() -> set[str]:
    """Names of series, those of histograms included."""
    names = {each.name for each in forecast_families()}
    for family in families():
        name = served_name(family)
        suffixes = {
            "histogram": ("_bucket", "_sum", "_count"),
            "summary": ("_sum", "_count"),
        }.get(family.type, ("",))
        names |= {name + suffix for suffix in suffixes}
    return names


@pytest.mark.parametrize(
    "path", [*DASHBOARDS, *PROMETHEUS.glob("*.yml"), *PROMETHEUS.glob("tests/*.yml")], ids=str
)
def test_what_is_asked_for_is_served(path: Path) -> None:
    # a recorded series is level:metric:operation, a label value or a file may begin the same way
    named = set(re.findall(r"(?<![\w:/])slurm_rl_\w+(?![\w:]|=)", path.read_text()))
    labels = {"slurm_rl_mode", "slurm_rl_configured_mode"}
    assert named - labels <= served()
    assert named or path.name == "prometheus.yml"


def test_every_family_is_on_a_dashboard_or_in_a_rule() -> None:
    asked = "".join(path.read_text() for path in (*DASHBOARDS, *PROMETHEUS.glob("*.yml")))
    unasked = {served_name(each) for each in families() if served_name(each) not in asked}
    assert unasked == {
        "slurm_rl_process_virtual_memory_bytes",
        "slurm_rl_process_start_time_seconds",
        "slurm_rl_process_open_fds",
        "slurm_rl_process_max_fds",
    }


@pytest.mark.parametrize("name", alerts())
def test_an_alert_says_what_to_do_and_where_to_read_on(name: str) -> None:
    text = alerts()[name]
    assert re.search(r"severity: (critical|warning)$", text, re.MULTILINE)
    for annotation in ("summary", "description"):
        assert re.search(rf"^ +{annotation}: \S", text, re.MULTILINE), annotation
    (runbook,) = re.findall(r"runbook: (\S+)", text)
    document, _, mark = runbook.partition("#")
    assert mark == anchor(name)
    assert mark in map(anchor, headings(TOP / document))


def test_recorded_series_are_documented() -> None:
    recorded = re.findall(r"record: (\S+)", (PROMETHEUS / "recording_rules.yml").read_text())
    rows = table_rows(section(TOP / "docs" / "metrics.md", "Recorded series"))
    assert [row[0].strip("`") for row in rows] == recorded


def promtool(*words: str, stdin: bytes = b"") -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool: run tests/real/install_daemons.sh")
    done = subprocess.run([program, *words], input=stdin, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_promtool_finds_no_fault_in_the_rules_and_the_example() -> None:
    rules = sorted(str(path) for path in PROMETHEUS.glob("*.yml") if path.stem != "prometheus")
    assert promtool("check", "rules", *rules).count("SUCCESS") == len(rules) == 2
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))


def test_promtool_finds_no_fault_in_what_is_served() -> None:
    class Served:
        def collect(self) -> list[Metric]:
            return families()

        def describe(self) -> list[Metric]:
            return []

    registry = CollectorRegistry()
    registry.register(Served())  # type: ignore[arg-type]
    assert promtool("check", "metrics", stdin=generate_latest(registry)) == ""


@pytest.mark.parametrize("path", sorted(PROMETHEUS.glob("tests/*.yml")), ids=lambda path: path.stem)
def test_rules_do_what_their_tests_say(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(path))


@pytest.mark.parametrize("name", alerts())
def test_every_alert_is_seen_to_fire_and_not_to(name: str) -> None:
    tests = re.split(r"^  - name: ", TESTS, flags=re.MULTILINE)[1:]
    fires = [text for text in tests if f'alertname="{name}"' in text]
    assert fires
    assert all("exp_samples: []" in text for text in fires)
    rule = alerts()[name].partition("labels:")[0]
    asked = set(re.findall(r"\b(?:slurm_rl|node)_\w+", rule)) - {"slurm_rl_mode"}
    quiet = [text for text in tests if f'alertname="{name}"' not in text]
    assert any(asked & set(re.findall(r"\b(?:slurm_rl|node)_\w+", text)) for text in quiet)
