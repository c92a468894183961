"""Kinds of panels as Grafana stores them, and the labels of the dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SITE = 'cluster=~"$cluster"'
QUEUE = 'cluster=~"$cluster", partition=~"$partition"'
ACCOUNT = 'cluster=~"$cluster", account=~"$account"'
Panel = dict[str, Any]
Target = tuple[str, str]
#: A row's title and its panels.
Row = tuple[str, Sequence[Panel]]


def panel(kind: str, title: str, meaning: str, targets: Sequence[Target], **more: Any) -> Panel:
    """A panel without its position."""
    instant = kind in ("stat", "table")
    return {
        "type": kind,
        "title": title,
        "description": meaning,
        "datasource": DATASOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": DATASOURCE,
                "expr": expression,
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                "format": "table" if kind == "table" else "time_series",
                "editorMode": "code",
            }
            for place, (expression, legend) in enumerate(targets)
        ],
        **more,
    }


def steps(*bounds: tuple[float | None, str]) -> dict[str, Any]:
    """Thresholds: each colour applies from its bound upwards; None is the lowest."""
    return {
        "mode": "absolute",
        "steps": [{"value": bound, "color": colour} for bound, colour in bounds],
    }


def lines(
    title: str,
    meaning: str,
    unit: str,
    *targets: Target,
    line_at: float | None = None,
    stacked: bool = False,
    most: float | None = None,
) -> Panel:
    """Series over time, half as wide as the page."""
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    defaults: dict[str, Any] = {"unit": unit, "min": 0, "custom": custom}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if most is not None:
        defaults["max"] = most
    if line_at is not None:
        custom["thresholdsStyle"] = {"mode": "line"}
        defaults["thresholds"] = steps((None, "transparent"), (line_at, "red"))
    target = {
        "matcher": {"id": "byRegexp", "options": "/^target/"},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
            {"id": "custom.fillOpacity", "value": 0},
        ],
    }
    return panel(
        "timeseries",
        title,
        meaning,
        targets,
        fieldConfig={"defaults": defaults, "overrides": [target]},
        options={
            "legend": {"displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        gridPos={"w": 12, "h": 8},
    )


def states(title: str, meaning: str, metric: str) -> Panel:
    """The state of a stateset over time, half as wide as the page."""
    return panel(
        "state-timeline",
        title,
        meaning,
        [(f"max by (cluster, {metric}) ({metric}{{{SITE}}})", f"{{{{{metric}}}}} {{{{cluster}}}}")],
        fieldConfig={
            "defaults": {
                "custom": {"fillOpacity": 70, "lineWidth": 0},
                "thresholds": steps((None, "transparent"), (1, "blue")),
            },
            "overrides": [],
        },
        options={"mergeValues": True, "showValue": "never", "legend": {"showLegend": False}},
        gridPos={"w": 12, "h": 8},
    )


def stat(
    title: str,
    meaning: str,
    target: Target,
    unit: str = "none",
    *,
    thresholds: dict[str, Any] | None = None,
    names: bool = False,
    words: dict[str, str] | None = None,
) -> Panel:
    """One number, or the name of a series; `words` replace values."""
    defaults: dict[str, Any] = {
        "unit": unit,
        "thresholds": thresholds or steps((None, "blue")),
        "mappings": [],
    }
    if words:
        mapping = {value: {"text": word} for value, word in words.items()}
        defaults["mappings"] = [{"type": "value", "options": mapping}]
    return panel(
        "stat",
        title,
        meaning,
        [target],
        fieldConfig={"defaults": defaults, "overrides": []},
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "name" if names else "value",
            "colorMode": "background",
            "graphMode": "none",
        },
        gridPos={"w": 4, "h": 4},
    )


def table(title: str, meaning: str, *targets: Target, height: int = 8) -> Panel:
    """One line for each set of labels; legends name the values of several targets."""
    names = {f"Value #{chr(ord('A') + place)}": legend for place, (_, legend) in enumerate(targets)}
    hidden = {"Time": True} if len(targets) > 1 else {"Time": True, "Value": True, "__name__": True}
    merged = [{"id": "merge", "options": {}}] if len(targets) > 1 else []
    organized = {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names}}
    return panel(
        "table",
        title,
        meaning,
        targets,
        fieldConfig={"defaults": {"custom": {"align": "auto"}}, "overrides": []},
        options={"showHeader": True},
        transformations=[*merged, organized],
        gridPos={"w": 12, "h": height},
    )


def a_minute(metric: str, label: str) -> str:
    """Events a minute."""
    return f"60 * sum by (cluster, {label}) (rate({metric}{{{SITE}}}[$__rate_interval]))"


MODE = stat(
    "Mode",
    "active: the daemon writes factors; shadow: it only records.",
    (f"max by (cluster, slurm_rl_mode) (slurm_rl_mode{{{SITE}}} == 1)", "{{slurm_rl_mode}}"),
    names=True,
)
LAST_SUCCESS = stat(
    "Last good cycle",
    "Time since the last good cycle; an alert fires after 15 minutes.",
    (f"time() - max by (cluster) (slurm_rl_last_success_timestamp_seconds{{{SITE}}})", ""),
    "s",
    thresholds=steps((None, "green"), (300, "orange"), (900, "red")),
)
FALLBACK = stat(
    "Model",
    "Whether the model orders the queue, or the fallback.",
    (f"max by (cluster) (slurm_rl_fallback_active{{{SITE}}})", ""),
    thresholds=steps((None, "green"), (1, "red")),
    words={"0": "used", "1": "FALLBACK"},
)
