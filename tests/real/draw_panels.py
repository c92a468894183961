"""Draws what a real Prometheus answers to the panels of a dashboard, a picture for each row.

Grafana is not needed for it: places, units, thresholds and legends are taken from its JSON.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from tests.real.prometheus_server import Panel, api, query, rows, substituted

mpl.use("Agg")
#: Inches of one column and one line of Grafana's grid.
_WIDE, _HIGH = 0.5, 0.42
#: Inches of the row's title, of the caption, and above and below the lines of a panel.
_HEAD, _FOOT, _ABOVE, _BELOW = 0.35, 0.3, 0.3, 0.85
#: Steps of a time axis that people count in, seconds.
_TIME_STEPS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_GREY = "#555555"
#: Labels that are left out of tables.
_UNSHOWN = ("__name__", "job", "instance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What to ask for.

    Attributes:
        port: of Prometheus.
        caption: where the data come from.
        start, end: seconds since the epoch.
        step: seconds between values.
        window: over which waits are counted, as PromQL says it.
        rate_interval: of rates.
        marks: what happened: seconds since the epoch, and words.
    """

    port: int
    caption: str
    start: float
    end: float
    step: float
    window: str
    rate_interval: str
    marks: Sequence[tuple[float, str]]

    def ask(self, expression: str, *, over_time: bool) -> list[dict[str, Any]]:
        """Series of values over the span, or values at its end."""
        text = substituted(expression, window=self.window, rate_interval=self.rate_interval)
        if not over_time:
            return query(self.port, text, time=self.end)
        asked = {"query": text, "start": self.start, "end": self.end, "step": self.step}
        found: list[dict[str, Any]] = api(self.port, "query_range", **asked)["result"]
        return found


def draw_dashboard(dashboard: Path, folder: Path, span: Span) -> list[Path]:
    """Write FOLDER/DASHBOARD-N.png for each row; the paths."""
    written = []
    for number, (title, panels) in enumerate(rows(dashboard), start=1):
        path = folder / f"{dashboard.stem}-{number}.png"
        _draw_row(title, panels, path, span)
        written.append(path)
    return written


def _draw_row(title: str, panels: Sequence[Panel], path: Path, span: Span) -> None:
    top = min(panel["gridPos"]["y"] for panel in panels)
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) - top
    high = lines * _HIGH + _HEAD + _FOOT
    figure = plt.figure(figsize=(24 * _WIDE, high), dpi=80)
    figure.suptitle(title, x=0.01, y=1 - 0.1 / high, ha="left", va="top", fontsize=13)
    figure.text(0.01, 0.08 / high, span.caption, fontsize=8, color=_GREY, ha="left", va="bottom")
    for panel in panels:
        place = panel["gridPos"]
        below = _BELOW if panel["type"] in ("timeseries", "state-timeline") else 0.1
        bottom = high - _HEAD - (place["y"] - top + place["h"]) * _HIGH + below
        axes = figure.add_axes(
            (
                (place["x"] * _WIDE + 0.75) / (24 * _WIDE),
                bottom / high,
                (place["w"] * _WIDE - 0.9) / (24 * _WIDE),
                (place["h"] * _HIGH - below - _ABOVE) / high,
            )
        )
        axes.set_title(panel["title"], loc="left", fontsize=10 if place["w"] > 4 else 8)
        _DRAWN[panel["type"]](axes, panel, span)
    figure.savefig(path)
    plt.close(figure)


def _legend(pattern: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern).strip()


def _formatted(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    if unit == "s":
        return f"{value:.3g} s" if value < 60 else f"{value / 60:.3g} min"
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _series(panel: Panel, span: Span) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Legend, minutes and values of each series."""
    found = []
    for target in panel["targets"]:
        for each in span.ask(target["expr"], over_time=True):
            values = np.array(each["values"], dtype=np.float64)
            minutes = (values[:, 0] - span.start) / 60
            found.append((_legend(target["legendFormat"], each["metric"]), minutes, values[:, 1]))
    return found


def _time_axis(axes: Axes, span: Span) -> None:
    axes.set_xlim(0, (span.end - span.start) / 60)
    axes.set_xlabel("minutes", fontsize=8)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for when, words in span.marks:
        minute = (when - span.start) / 60
        axes.axvline(minute, color=_GREY, linewidth=0.8, linestyle=":")
        axes.annotate(
            words,
            (minute, 1.0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            xytext=(2, -2),
            fontsize=7,
            color=_GREY,
            va="top",
            rotation=90,
        )


def _bare(legend: str) -> str:
    """Target and usage of one account have one colour."""
    return re.sub(r"^(target|usage) ", "", legend)


def _draw_lines(axes: Axes, panel: Panel, span: Span) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults["unit"]
    series = [each for each in _series(panel, span) if np.isfinite(each[2]).any()]
    if "stacking" in defaults["custom"]:
        minutes = np.unique(np.concatenate([each[1] for each in series]))
        heights = [np.interp(minutes, each[1], each[2], left=0, right=0) for each in series]
        axes.stackplot(minutes, *heights, labels=[each[0] for each in series], alpha=0.7)
    else:
        _draw_each(axes, series)
    for step in defaults.get("thresholds", {"steps": []})["steps"]:
        if step["value"] is not None:
            axes.axhline(step["value"], color=step["color"], linewidth=1)
    axes.set_ylim(bottom=0, top=defaults.get("max", None) and 1.05 * defaults["max"])
    if unit == "s":
        fitting = [step for step in _TIME_STEPS if axes.get_ylim()[1] / step <= 7]
        axes.yaxis.set_major_locator(MultipleLocator(fitting[0] if fitting else 7200))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _formatted(value, unit)))
    _time_axis(axes, span)
    below = (0, -0.2)
    axes.legend(loc="upper left", bbox_to_anchor=below, ncols=4, fontsize=7, frameon=False)


def _draw_each(axes: Axes, series: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> None:
    """Lines; those that are 0 throughout are one thin line with all their names."""
    colours = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]
    some = [each for each in series if np.nanmax(np.abs(each[2]))]
    names = sorted({_bare(legend) for legend, _, _ in some})
    for legend, minutes, values in some:
        colour = colours[names.index(_bare(legend)) % 10]
        style = "--" if legend.startswith("target") else "-"
        axes.plot(minutes, values, style, color=colour, linewidth=1.4, label=legend)
    flat = [each for each in series if not np.nanmax(np.abs(each[2]))]
    if flat:
        words = "0 throughout: " + ", ".join(legend for legend, _, _ in flat)
        _, minutes, values = flat[0]
        label = textwrap.fill(words, 60)
        axes.plot(minutes, values, color=_GREY, linewidth=0.8, label=label)


def _draw_table(axes: Axes, panel: Panel, span: Span) -> None:
    """Lines are sets of labels, columns labels and the targets' values."""
    lines: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    columns: list[str] = []
    for target in panel["targets"]:
        for each in span.ask(target["expr"], over_time=False):
            labels = {k: v for k, v in each["metric"].items() if k not in _UNSHOWN}
            line = lines.setdefault(tuple(sorted(labels.items())), dict(labels))
            if target["legendFormat"]:
                line[target["legendFormat"]] = f"{float(each['value'][1]):.3g}"
            columns += [name for name in line if name not in columns]
    axes.axis("off")
    cells = [[line.get(name, "")[:14] for name in columns] for line in lines.values()]
    drawn = axes.table(
        cells, colLabels=columns, loc="upper left", cellLoc="left", edges="horizontal"
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    drawn.auto_set_column_width(list(range(len(columns))))


def _draw_number(axes: Axes, panel: Panel, span: Span) -> None:
    (target,) = panel["targets"]
    answers = span.ask(target["expr"], over_time=False)
    defaults = panel["fieldConfig"]["defaults"]
    if panel["options"]["textMode"] == "name":
        text = " ".join(_legend(target["legendFormat"], each["metric"]) for each in answers)
    else:
        value = float(answers[0]["value"][1])
        text = _formatted(value, defaults["unit"])
        for mapping in defaults["mappings"]:
            text = mapping["options"].get(f"{value:g}", {"text": text})["text"]
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=12, transform=axes.transAxes)


def _draw_states(axes: Axes, panel: Panel, span: Span) -> None:
    series = _series(panel, span)
    for place, (_, minutes, values) in enumerate(series):
        axes.fill_between(minutes, place - 0.4, place + 0.4, where=values > 0, step="post")
    axes.set_yticks(range(len(series)), [legend for legend, _, _ in series], fontsize=8)
    _time_axis(axes, span)


_DRAWN = {
    "timeseries": _draw_lines,
    "table": _draw_table,
    "stat": _draw_number,
    "state-timeline": _draw_states,
}
