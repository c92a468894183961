"""Writes the Grafana dashboards, whose JSON is too long to edit.

    python deploy/grafana/generate_dashboards.py

Each row answers a question. `cluster=~".*"` also matches series without a label `cluster`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from health_dashboard import HEALTH
from main_dashboard import MAIN
from panels import DATASOURCE, SITE, Panel, Row
from starts_dashboard import STARTS

#: Of Grafana 10.4; newer releases migrate it on import.
SCHEMA = 39


def laid_out(rows: Sequence[Row]) -> list[Panel]:
    """Panels with numbers and places: left to right, a row's title above."""
    placed: list[Panel] = []
    top = 0
    for title, panels in rows:
        place = {"x": 0, "y": top, "w": 24, "h": 1}
        placed.append({"type": "row", "title": title, "collapsed": False, "gridPos": place})
        left, top, tallest = 0, top + 1, 0
        for each in panels:
            width, height = each["gridPos"]["w"], each["gridPos"]["h"]
            if left + width > 24:
                left, top, tallest = 0, top + tallest, 0
            placed.append({**each, "gridPos": {"x": left, "y": top, "w": width, "h": height}})
            left, tallest = left + width, max(tallest, height)
        top += tallest
    for number, each in enumerate(placed, start=1):
        each["id"] = number
        if each["type"] == "row":
            each["panels"] = []
    return placed


def chosen_by_label(name: str, source: str, label: str) -> dict[str, Any]:
    """A variable with the values of a label; All is `.*`, which also matches no label at all."""
    query = f"label_values({source}, {label})"
    return {
        "type": "query",
        "name": name,
        "label": name,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def variables(*, queue: bool) -> list[dict[str, Any]]:
    """What a viewer may choose; `queue` adds partition, account and window."""
    datasource = {
        "type": "datasource",
        "name": "datasource",
        "query": "prometheus",
        "label": "source",
    }
    chosen = [datasource, chosen_by_label("cluster", "slurm_rl_up", "cluster")]
    if not queue:
        return chosen
    window = {
        "type": "custom",
        "name": "window",
        "label": "window",
        "query": "15m,1h,6h,1d,7d",
        "options": [
            {"text": each, "value": each, "selected": each == "1h"}
            for each in ("15m", "1h", "6h", "1d", "7d")
        ],
        "current": {"selected": True, "text": "1h", "value": "1h"},
    }
    return [
        *chosen,
        chosen_by_label("partition", f"slurm_rl_pending_jobs{{{SITE}}}", "partition"),
        chosen_by_label("account", f"slurm_rl_account_share_target_ratio{{{SITE}}}", "account"),
        window,
    ]


def dashboard(uid: str, title: str, rows: Sequence[Row], *, queue: bool) -> dict[str, Any]:
    """A whole dashboard as Grafana imports it."""
    firing = f'ALERTS{{{SITE}, alertname=~"SlurmRL.*", alertstate="firing"}}'
    other = {"type": "dashboards", "title": "slurm-rl", "tags": ["slurm-rl"], "asDropdown": False}
    return {
        "uid": uid,
        "title": title,
        "tags": ["slurm-rl"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": variables(queue=queue)},
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "enable": True,
                    "iconColor": "red",
                    "datasource": DATASOURCE,
                    "expr": firing,
                    "titleFormat": "{{alertname}}",
                }
            ]
        },
        "links": [{**other, "includeVars": True, "keepTime": True}],
        "panels": laid_out(rows),
    }


def dashboards() -> dict[str, dict[str, Any]]:
    """File name -> dashboard."""
    return {
        "slurm-rl.json": dashboard("slurm-rl", "slurm-rl", MAIN, queue=True),
        "slurm-rl-health.json": dashboard(
            "slurm-rl-health", "slurm-rl health", HEALTH, queue=False
        ),
        "slurm-rl-starts.json": dashboard(
            "slurm-rl-starts", "slurm-rl starts of jobs", STARTS, queue=False
        ),
    }


def main() -> None:
    """Write the dashboards next to this file, or into the given folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    folder: Path = parser.parse_args().output
    for name, content in dashboards().items():
        folder.joinpath(name).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
