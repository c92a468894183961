"""A real Prometheus that scrapes a daemon, its API, and the queries of the dashboards."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real.daemon import wait_until


def api(port: int, path: str, **parameters: object) -> Any:
    """The `data` of an answer of Prometheus' HTTP API; None while there is no answer."""
    address = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def query(port: int, expression: str, **at: float) -> list[dict[str, Any]]:
    """What Prometheus answers to an instant query, now or at a `time`."""
    data = api(port, "query", query=expression, **at)
    result: list[dict[str, Any]] = data["result"] if data else []
    return result


@contextmanager
def prometheus_scraping(
    target: int, port: int, folder: Path, rules: Sequence[Path] = ()
) -> Iterator[None]:
    """A real Prometheus that scrapes the daemon each second and evaluates rules as often."""
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: {json.dumps([str(path) for path in rules])}\n"
        "scrape_configs:\n"
        "  - job_name: slurm-rl\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    )
    with _running(port, folder):
        yield


@contextmanager
def prometheus_remembering(port: int, folder: Path) -> Iterator[None]:
    """A Prometheus that scrapes nothing, on what an earlier one stored in this folder."""
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    with _running(port, folder):
        wait_until(lambda: api(port, "labels") is not None, 30, "Prometheus up", lambda: "")
        yield


@contextmanager
def _running(port: int, folder: Path) -> Iterator[None]:
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/tsdb",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS = sorted(GRAFANA.glob("*.json"))
Panel = dict[str, Any]
#: Parts of expressions that need seven days, a limit on batch jobs, an experiment, or the forecast
#: service: a short run of the daemon alone has no data of them.
OF_LONGER_RUNS = (
    "_entitlement_ratio",
    "_misdelivered_ratio",
    "< Inf",
    "slurm_rl_batch_limit_resource",
    "slurm_rl_experiment_",
    "slurm_rl_forecast",
)


def rows(dashboard: Path) -> Iterator[tuple[str, list[Panel]]]:
    """Titles of the rows, with the panels below each."""
    title, below = "", []
    for panel in json.loads(dashboard.read_text())["panels"]:
        if panel["type"] == "row":
            if below:
                yield title, below
            title, below = panel["title"], []
        else:
            below.append(panel)
    yield title, below


def expressions(dashboard: Path) -> Iterator[tuple[str, str]]:
    """Panel and expression of each target, those of annotations included."""
    for _, panels in rows(dashboard):
        for panel in panels:
            for target in panel["targets"]:
                yield panel["title"], target["expr"]
    for annotation in json.loads(dashboard.read_text())["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def substituted(expression: str, *, window: str, rate_interval: str = "1m") -> str:
    """As Grafana sends it with All chosen for each variable."""
    chosen = {
        "$cluster": ".*",
        "$partition": ".*",
        "$account": ".*",
        "$window": window,
        "$__rate_interval": rate_interval,
    }
    for name, value in chosen.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression
