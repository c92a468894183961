"""The pictures of the committee's page: hours waited and longest wait, as SVG to put into HTML."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.cli.tables import span_text
from slurm_rl_plugin.cli.what_if.committee.words import resource_word, short_name
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.intervals import BETTER, WORSE
from slurm_rl_plugin.what_if.committee.hours_waited import (
    GroupHours,
)

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Colours of before, and of after by what is said of a group; a word stands beside each, as many
#: see red and green alike and pages are printed in black.
BEFORE = "#a9b1ba"
AFTER = {BETTER: "#1b7f4b", WORSE: "#c0392b"}
OTHERS = "#4f6d8f"
#: Inches: width of the page between its margins, height of a row, of a title.
_WIDTH, _ROW, _TITLE = 7.3, 0.21, 0.22
#: Inches for all rows of a page together, and of a row at least.
_ALL_ROWS, _LEAST_ROW = 3.4, 0.15
_FONT = 7.0
_LONGEST_LABEL = 22
#: Text is text, in the reader's own font, and the same page is the same file.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": _FONT,
}
#: What a browser needs no part of: matplotlib's own names of places, links to what formats are.
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMES = re.compile(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"|(?<=<g) id="[^"]*"')
_COMMENTS = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_SIZE = re.compile(r'(?<=<svg)([^>]*?) (?:width|height)="[^"]*"')


def waits_picture(
    rows: Sequence[GroupHours],
    titles: tuple[str, str] | None,
    salt: str,
    alt: str,
    rows_of_page: int,
) -> str:
    """A row a group: bars of what it waited before and after, and of its longest wait.

    Args:
        rows: at least one.
        titles: above both columns; None for no titles.
        salt: another one for each picture of a page, of which names of places must differ.
        alt: what the picture tells, for who cannot see it.
        rows_of_page: of all pictures of the page: of many, rows are lower.

    Returns:
        An `svg` element without size, link or script.
    """
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": salt}):
        top = _TITLE if titles else 0.03
        row_height = max(min(_ROW, _ALL_ROWS / rows_of_page), _LEAST_ROW)
        height = top + row_height * len(rows)
        figure, axes = plt.subplots(1, 2, figsize=(_WIDTH, height), sharey=True)
        figure.subplots_adjust(left=0.2, right=0.995, wspace=0.03, top=1 - top / height, bottom=0)
        hours = [(row.before, row.after) for row in rows]
        longest = [(row.longest_before, row.longest_after) for row in rows]
        _draw_bars(axes[0], rows, hours, worded=True)
        _draw_bars(axes[1], rows, longest, worded=False)
        labels = axes[0].set_yticks(range(len(rows)), [_label(row) for row in rows])
        for each in labels:
            each.label1.set_parse_math(False)  # users choose names, and some hold a $
        axes[0].set_ylim(len(rows) - 0.5, -0.5)
        for axis, title in zip(axes, titles or (), strict=False):
            axis.set_title(title, fontsize=_FONT + 0.5, fontweight="bold", loc="left", pad=4)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
        plt.close(figure)
    return _inline(file.getvalue(), alt)


def _inline(drawn: str, alt: str) -> str:
    """What stands in a page of HTML, which knows SVG."""
    for unneeded in (_HEAD, _METADATA, _COMMENTS, _NAMES):
        drawn = unneeded.sub("", drawn)
    for _ in range(2):
        drawn = _SIZE.sub(r"\1", drawn)
    return drawn.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1)


def _label(row: GroupHours) -> str:
    name = resource_word(row.group) if row.by == "resource" else row.group
    return short_name(name, _LONGEST_LABEL)


def _draw_bars(
    axis: Any, rows: Sequence[GroupHours], hours: list[tuple[float, float]], *, worded: bool
) -> None:
    most = max(max(each) for each in hours) or 1.0
    for place, (row, (before, after)) in enumerate(zip(rows, hours, strict=True)):
        colour = AFTER.get(row.word, OTHERS) if worded else OTHERS
        axis.barh(place - 0.2, before, height=0.36, color=BEFORE)
        axis.barh(place + 0.2, after, height=0.36, color=colour)
        told = f"{span_text(before * HOUR)} → {span_text(after * HOUR)}"
        axis.annotate(
            f"{told} · {row.word}" if worded else told,
            (max(before, after), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=_FONT - 0.5,
            fontweight="bold" if worded and row.word in AFTER else "normal",
            color=colour if worded else "#333333",
        )
    axis.set_xlim(0, most * 1.9)
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0)
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)
    axis.spines["left"].set_color("#888888")
