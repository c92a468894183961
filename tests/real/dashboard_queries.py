"""What the committed dashboards ask Prometheus for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS = sorted(GRAFANA.glob("*.json"))
Panel = dict[str, Any]


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
