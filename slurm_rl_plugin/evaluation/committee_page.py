"""One page of HTML for the users' committee: hours waited before and after, who gains, who loses.

It prints on one page of A4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.job_groups import NO_LIMIT
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.evaluation.site_replay import SiteReplay
from slurm_rl_plugin.evaluation.study import ACCOUNTS
from slurm_rl_plugin.html_pages.pages import render
from slurm_rl_plugin.learning.evaluation.group_waits import LEAST_LOSS
from slurm_rl_plugin.learning.evaluation.recorded_replay import RECORDED_ORDER
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from slurm_rl_plugin.what_if.effects import ALL
from slurm_rl_plugin.what_if.group_hours import (
    GROUPED_BY,
    GroupHours,
    HoursWaited,
    hours_in_blocks,
    hours_in_replays,
)
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, ReplayedCluster
from slurm_rl_plugin.what_if.switchback.trial import GoalFinding

#: Seed of what is drawn again: the same page each time.
_SEED = 1
#: Most sentences, so that it remains one page: gain or loss, possible loss, longest wait.
_MOST, _MOST_UNSURE, _MOST_LONGEST = 4, 2, 2
#: Longest name in a sentence and in a table, characters.
_LONGEST_NAME, _LONGEST_LABEL = 32, 22
#: Longest spans that are printed in seconds, in minutes and in hours, seconds.
_SECONDS, _MINUTES, _HOURS = 2 * MINUTE, 2 * HOUR, 100 * HOUR
#: Class of what changed beyond chance. The verdict is printed too: many readers do not see red and
#: green apart, and many printers are black.
_CLASSES = {BETTER: "better", WORSE: "worse"}
_KINDS = {
    "account": "By account",
    "width": "By width: how much of the machine a job takes",
    "limit": "By time limit",
    "resource": "By the resource that a job asks most for",
}
#: Shares of the machine in words; the names of other widths are words themselves.
_WIDTHS = {
    "up to an eighth": "up to an eighth of the machine",
    "below a half": "more than an eighth and less than half of the machine",
    "half or more": "half of the machine or more",
}
_RESOURCES = {"cpus": "processors", "gpus": "GPUs"}
_SURE = {BETTER: "better with {}", WORSE: "worse with {}", INCONCLUSIVE: "inconclusive so far"}


def page_html(hours: HoursWaited, template: str = "committee.html", **texts: Any) -> str:
    """The whole page.

    Args:
        template: what it says of the replay or the experiment.
        texts: what the template fills in; plain text.
    """
    return render(
        template,
        hours=hours,
        summary=(
            f"{sentence(hours.everybody, each=hours.each)} {longest_sentence(hours.everybody)} "
            f"{counts_sentence(hours)}"
        ),
        tables=list(_tables(hours)),
        label=_label,
        kinds=_CLASSES,
        gains=_sentences(hours, BETTER),
        loses=_losers(hours),
        **texts,
    )


def _losers(hours: HoursWaited) -> list[str]:
    told = _sentences(hours, WORSE)
    unsure = [
        row
        for row in hours.judged(INCONCLUSIVE)
        if row.growth * HOUR >= LEAST_LOSS and row.after > 1.05 * row.before
    ]
    if unsure:
        told.append(f"Waited longer, which may be chance ({len(unsure)} groups), above all:")
        told += [sentence(row, each=hours.each) for row in unsure[:_MOST_UNSURE]]
    grown = [
        row
        for row in hours.groups
        if row.longest_growth >= 1.0 and row.longest_after > 1.1 * row.longest_before
    ]
    grown.sort(key=lambda row: -row.longest_growth)
    return told + [longest_sentence(row) for row in grown[:_MOST_LONGEST]]


def _sentences(hours: HoursWaited, word: str) -> list[str]:
    """A sentence for each of the groups that change most, and how many others there are."""
    rows = hours.judged(word)
    told = [sentence(row, each=hours.each) for row in rows[:_MOST]]
    if (more := len(rows) - _MOST) > 0:
        told.append(f"So did {more} more group{'s' if more > 1 else ''}, by less.")
    if not rows and hours.has_intervals:
        told.append("No group beyond chance, in the mean wait.")
    elif not rows:
        few = f"{hours.stretches} {hours.unit} are too few"
        told.append(f"No group beyond chance: {few} to judge.")
    return told


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name that users chose, on one line and not too long; long ones often differ at the end."""
    name, end = printable(name), longest // 2
    return name if len(name) <= longest else f"{name[: longest - 1 - end]}…{name[-end:]}"


def resource_word(name: str) -> str:
    """What people call a resource."""
    return _RESOURCES.get(name, short_name(name))


def jobs_of(row: GroupHours) -> str:
    """`Jobs of account physics`, to begin a sentence with."""
    if row.by == ALL:
        return "All jobs"
    if row.by == "account":
        return f"Jobs of account {short_name(row.group)}"
    if row.by == "width":
        return f"Jobs on {_WIDTHS.get(row.group, row.group)}"
    if row.by == "limit":
        without = row.group == NO_LIMIT
        return "Jobs without a time limit" if without else f"Jobs with a time limit {row.group}"
    return f"Jobs that ask mostly for {resource_word(row.group)}"


def hours_text(hours: float) -> str:
    """`3.2 hours`; small spans in minutes or seconds, long ones in days."""
    seconds = hours * HOUR
    if seconds < _SECONDS:
        return f"{seconds:.0f} seconds"
    if seconds < _MINUTES:
        return f"{seconds / MINUTE:.0f} minutes"
    return f"{hours:.1f} hours" if seconds < _HOURS else f"{hours / 24.0:.1f} days"


def _both_texts(before: float, after: float) -> tuple[str, str]:
    """Two spans to compare: in the same unit, unless one would be 0 in it."""
    if max(before, after) * HOUR >= _HOURS > min(before, after) * HOUR >= DAY:
        return f"{before / 24.0:.1f} days", f"{after / 24.0:.1f} days"
    return hours_text(before), hours_text(after)


def change_text(row: GroupHours) -> str:
    """`34 % less (20 to 45 % less)`; no ratio if no job waited before."""
    if row.ratio is None:
        return "as before" if row.after <= 0.0 else "before they did not wait"
    text = _percent(row.ratio)
    if row.ratio_ci95 is None:
        return text
    low, high = (_percent(each) for each in row.ratio_ci95)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2] != "before":
        low, high = sorted((low, high), key=lambda each: float(each.split()[0]))
        low = low.split()[0]
    return f"{text} (95 %: {low} to {high})"


def _percent(ratio: float) -> str:
    change = 100.0 * (ratio - 1.0)
    if abs(change) < 0.5:
        return "as before"
    if ratio > 10.0:
        return f"{ratio:.0f} times as much"
    return f"{abs(change):.0f} % {'more' if change > 0 else 'less'}"


def sentence(row: GroupHours, *, each: bool) -> str:
    """What a group waited, before and after; `each` job, or together in every hour."""
    before, after = _both_texts(row.before, row.after)
    how = "each" if each else "together in every hour"
    waited = f"waited {before} {how} before and {after} with our order"
    return f"{jobs_of(row)} {waited}: {change_text(row)}."


def longest_sentence(row: GroupHours) -> str:
    """How long the job waited that waited longest."""
    before, after = _both_texts(row.longest_before, row.longest_after)
    said = f"longest wait was {before} before and {after} with our order."
    return f"The {said}" if row.by == ALL else f"{jobs_of(row)}: the {said}"


def counts_sentence(hours: HoursWaited) -> str:
    """How many groups gain and lose."""
    if not hours.groups:
        return "No group has enough jobs for a verdict."
    gain, lose, unsure = (len(hours.judged(word)) for word in (BETTER, WORSE, INCONCLUSIVE))
    less, longer = (
        f"{count or 'none'} {'waits' if count <= 1 else 'wait'}" for count in (gain, lose)
    )
    return (
        f"Of {len(hours.groups)} groups of jobs, {less} less and {longer} longer; "
        f"{unsure or 'none'} {'is' if unsure <= 1 else 'are'} inconclusive."
    )


def _tables(hours: HoursWaited) -> Iterator[tuple[str, list[GroupHours]]]:
    for by in GROUPED_BY:
        judged = hours.grouped(by)
        rows = judged[:ACCOUNTS] if by == "account" else judged
        if rows:
            hidden = len(judged) - len(rows)
            more = f" (the {len(rows)} with most jobs; {hidden} more are judged)" if hidden else ""
            yield f"{_KINDS[by]}{more}", rows


def _label(row: GroupHours) -> str:
    name = resource_word(row.group) if row.by == "resource" else row.group
    return short_name(name, _LONGEST_LABEL)


def replay_page(found: SiteReplay, warning: str | None) -> str:
    """The page of a replay, in which both orders are simulated."""
    replayed, model = found.replayed, found.prediction.model
    hours = hours_in_replays(
        found.known,
        replayed.schedules[RECORDED_ORDER],
        replayed.schedules[model],
        replayed.measured,
        np.random.default_rng(_SEED),
    )
    return page_html(
        hours,
        "committee_replay.html",
        jobs=f"{replayed.counted:,}",
        days=_days(*found.days),
        model=model,
        warnings=(warning,) if warning else (),
        report=found.prediction.sentence,
        notices=found.study.notices or (),
        not_known="; ".join(found.prediction.not_known),
    )


def experiment_page(
    declared: Declaration,
    cluster: ReplayedCluster,
    findings: Sequence[GoalFinding],
    accounts: Sequence[str],
    verdict: str,
    *,
    now: float,
    resources: Sequence[str] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> str:
    """The page of an experiment: how long jobs really waited under both orders, in turns.

    Args:
        cluster: every known job with its real start; replays of its blocks leave much less to
            chance.
        accounts: names; `cluster.times.jobs.account` counts in them.
        verdict: one sentence.
        now: seconds since the epoch; only pairs whose two blocks have ended by then count.
        resources: names of the columns of `cluster.times.jobs.asked`; () for none.
    """
    hours = hours_in_blocks(
        declared,
        cluster.times,
        cluster,
        accounts,
        np.random.default_rng(_SEED),
        now=now,
        resources=resources,
        progress=progress,
    )
    blocks = declared.blocks[: declared.closed(now)]
    lengths = [f"{end(each.end - each.begin for each in blocks) / HOUR:.2g}" for end in (min, max)]
    trial = "the new order" if declared.candidate else "our order"
    return page_html(
        hours,
        "committee_experiment.html",
        days=_days(declared.begin, blocks[-1].end),
        present="the order as it was" if declared.candidate else "the site's own order",
        trial=trial,
        policy=declared.policy or "a rule",
        stretches=len(blocks),
        lengths=" to ".join(dict.fromkeys(lengths)),
        verdict=verdict,
        goals=[_goal(each, trial) for each in findings],
    )


def _goal(found: GoalFinding, trial: str) -> str:
    """`Jobs that wait, mean: better with our order, -12 % (between -20 and -5 %); ...`."""
    name = GOALS[found.goal]
    text = f"{name[0].upper()}{name[1:]}: {_SURE[found.word].format(trial)}"
    effect = found.effect
    estimate, low, high = (
        f"{100.0 * math.expm1(each):+.0f}" if math.isfinite(each) else None
        for each in (effect.estimate, effect.low, effect.high)
    )
    if estimate:
        text += f", {estimate} %"
        text += f" (between {low} and {high} %)" if low and high else ""
    return f"{text}{'; this one decides' if found.decides else ''}."


def _days(first: float, last: float) -> str:
    """`2026-11-01 to 2026-11-28`, by the local clock."""
    days = [datetime.fromtimestamp(each).date().isoformat() for each in (first, last)]
    return " to ".join(days)
