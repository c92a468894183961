"""One page of HTML for the users' committee: it prints on A4, and asks for nothing from elsewhere.

Names are those that users chose: each is escaped where it enters the page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.cli.what_if.committee.pictures import AFTER, BEFORE, OTHERS, waits_picture
from slurm_rl_plugin.cli.what_if.committee.words import (
    counts_sentence,
    longest_losers,
    longest_sentence,
    may_lose,
    sentence,
    sentences,
)
from slurm_rl_plugin.utility.intervals import BETTER, WORSE
from slurm_rl_plugin.what_if.committee.hours_waited import (
    GROUPED_BY,
    HoursWaited,
)

#: Accounts drawn and sentences told, so that it stays one page.
ACCOUNTS, _MOST, _MOST_UNSURE, _MOST_LONGEST = 8, 4, 2, 2
_KINDS = {
    "account": "By account",
    "width": "By width: how much of the machine a job takes",
    "limit": "By time limit",
    "resource": "By the resource that a job asks most for",
}
_STYLE = """
@page { size: A4; margin: 8mm 12mm; }
* { box-sizing: border-box; }
body { font: 8.4pt/1.25 "DejaVu Sans", Verdana, sans-serif; color: #222; margin: 0 auto;
  max-width: 186mm; padding: 4mm 0; }
h1 { font-size: 14pt; margin: 0 0 1mm; }
h2 { font-size: 8.8pt; margin: 1.4mm 0 .5mm; border-bottom: .2mm solid #ccc; }
p { margin: 0 0 1mm; }
ul { margin: 0; padding-left: 4mm; }
svg { display: block; width: 100%; height: auto; }
.sum { background: #f1f4f7; border-left: 1.2mm solid OTHERS; padding: 1.6mm 2.5mm;
  margin: 1.6mm 0; font-size: 9.4pt; }
.who { display: flex; gap: 5mm; margin-top: 1.5mm; font-size: 7.3pt; }
.who section { flex: 2; border-top: .9mm solid; break-inside: avoid; }
.who h2 { border: 0; margin-top: .5mm; }
.goals ul { columns: 2; column-gap: 6mm; font-size: 7pt; }
.who .gains { border-color: BETTER; } .who .loses { border-color: WORSE; flex: 3; }
.key span { margin-right: 5mm; }
.key i { display: inline-block; width: 3mm; height: 2mm; margin-right: 1.2mm; }
.small { font-size: 7pt; color: #444; }
.warning { border: .4mm solid WORSE; padding: 1mm 2mm; }
@media print { body { padding: 0; } * { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitteePage:
    """What stands on a page; plain text, which is escaped when the page is made.

    Attributes:
        title: of the page.
        about: which jobs and which time, one sentence or two.
        before, after: whose order either is, for the key of the pictures.
        hours: what every group waited.
        verdict: one sentence; "" for none.
        goals: what is known of each goal of an experiment, a sentence each.
        warnings: what makes the page say another thing than it seems.
        found: how it was found out, and what nobody can know; a sentence each.
    """

    title: str
    about: str
    before: str
    after: str
    hours: HoursWaited
    verdict: str
    goals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


def page_html(page: CommitteePage) -> str:
    """The whole page."""
    hours = page.hours
    style = _STYLE.replace("OTHERS", OTHERS)
    for word in (BETTER, WORSE):
        style = style.replace(word.upper(), AFTER[word])
    told = [
        sentence(hours.everybody, each=hours.each),
        longest_sentence(hours.everybody),
        counts_sentence(hours),
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{html.escape(page.title)}</title>\n<style>{style}</style>\n</head>\n<body>",
            f"<h1>{html.escape(page.title)}</h1>",
            _paragraph(page.about),
            *(_paragraph(each, "warning") for each in page.warnings),
            f'<div class="sum">{_paragraph(" ".join(told))}{_paragraph(page.verdict)}</div>',
            _key(page),
            *_pictures(hours),
            '<div class="who">',
            _section("gains", "Who gains", _gainers(hours)),
            _section("loses", "Who loses", _losers(hours)),
            "</div>",
            *_goals(page.goals),
            "<h2>How this was found</h2>",
            _paragraph(" ".join([*page.found, _how_sure(hours)]), "small"),
            "</body>\n</html>\n",
        ]
    )


def _paragraph(text: str, kind: str = "") -> str:
    if not text:
        return ""
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(each)}</li>' for each in texts)}</ul>"


def _section(kind: str, title: str, texts: Sequence[str]) -> str:
    return f'<section class="{kind}"><h2>{title}</h2>{_list(texts)}</section>'


def _goals(goals: Sequence[str]) -> list[str]:
    if not goals:
        return []
    return ["<h2>What was to be found out</h2>", f'<div class="goals">{_list(goals)}</div>']


def _key(page: CommitteePage) -> str:
    """Whose order bars are, in colours and words."""
    keys = (
        (BEFORE, f"before: {page.before}"),
        (OTHERS, f"after: {page.after}"),
        (AFTER[BETTER], "after, waits less"),
        (AFTER[WORSE], "after, waits longer"),
    )
    shown = (
        f'<span><i style="background:{each}"></i>{html.escape(word)}</span>' for each, word in keys
    )
    return f'<p class="key small">{"".join(shown)}</p>'


def _pictures(hours: HoursWaited) -> list[str]:
    """A picture for each kind of group that there is; accounts with most jobs only."""
    mean = "Hours waited each, mean" if hours.each else "Hours waited together in an hour"
    titles: tuple[str, str] | None = (mean, "Longest wait of a job")
    kinds = {by: hours.grouped(by) for by in GROUPED_BY}
    shown = {by: rows[:ACCOUNTS] if by == "account" else rows for by, rows in kinds.items() if rows}
    count = sum(len(rows) for rows in shown.values())
    found = []
    for by, rows in shown.items():
        title, hidden = _KINDS[by], len(kinds[by]) - len(rows)
        if hidden:
            title += f" (the {len(rows)} with most jobs; {hidden} more are judged)"
        alt = " ".join(sentence(row, each=hours.each) for row in rows)
        found.append(f"<h2>{title}</h2>{waits_picture(rows, titles, by, alt, count)}")
        titles = None
    return found


def _gainers(hours: HoursWaited) -> list[str]:
    gainers = hours.judged(BETTER)
    if gainers:
        return sentences(gainers, _MOST, each=hours.each)
    return [_nobody(hours)]


def _losers(hours: HoursWaited) -> list[str]:
    """Never empty: those that lose, those that may, and whose longest wait grew."""
    losers = hours.judged(WORSE)
    told = sentences(losers, _MOST, each=hours.each) if losers else [_nobody(hours)]
    if unsure := may_lose(hours):
        told.append(f"Waited longer, which may be chance ({len(unsure)} groups), above all:")
        told += [sentence(row, each=hours.each) for row in unsure[:_MOST_UNSURE]]
    told += [longest_sentence(row) for row in longest_losers(hours)[:_MOST_LONGEST]]
    return told


def _nobody(hours: HoursWaited) -> str:
    if hours.has_intervals:
        return "Nobody beyond chance, in the mean wait."
    return f"Nobody that could be told from chance: {hours.stretches} {hours.unit} are too few."


def _how_sure(hours: HoursWaited) -> str:
    if not hours.has_intervals:
        return f"Of {hours.stretches} {hours.unit} there are no intervals: all is inconclusive."
    return (
        f"Whether it is chance: 95 % intervals, {hours.stretches} {hours.unit} drawn again. Of "
        f"{len(hours.groups)} groups that were judged, about one in twenty is said to gain or to "
        "lose by chance alone. A longest wait is that of one job: there is no interval for it."
    )
