"""What the committee's page says of groups, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.cli.tables import printable
from slurm_rl_plugin.domain.job_groups import NO_LIMIT
from slurm_rl_plugin.learning.evaluation.group_waits import LEAST_LOSS
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from slurm_rl_plugin.utility.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.what_if.committee.hours_waited import (
    GroupHours,
    HoursWaited,
)
from slurm_rl_plugin.what_if.effects import ALL

#: Letters of a name of users at most: the page stays one page.
_LONGEST_NAME = 32
#: Shares of the machine in words; the names of other widths are words themselves.
_WIDTHS = {
    "up to an eighth": "up to an eighth of the machine",
    "below a half": "more than an eighth and less than half of the machine",
    "half or more": "half of the machine or more",
}
_RESOURCES = {"cpus": "processors", "gpus": "GPUs"}
#: Seconds and minutes up to so many, then hours, then days.
_SECONDS, _MINUTES, _HOURS = 2 * MINUTE, 2 * HOUR, 100 * HOUR


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name that users chose, on one line and not too long; long ones often differ at the end."""
    name = printable(name)
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - 1 - end]}…{name[-end:]}"


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
        if row.group == NO_LIMIT:
            return "Jobs without a time limit"
        return f"Jobs with a time limit {row.group}"
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
    """Spans that are compared are told in one unit, where neither is nothing in it."""
    if max(before, after) * HOUR >= _HOURS > min(before, after) * HOUR >= DAY:
        return f"{before / 24.0:.1f} days", f"{after / 24.0:.1f} days"
    return hours_text(before), hours_text(after)


def change_text(row: GroupHours) -> str:
    """`34 % less (20 to 45 % less)`; where nobody waited before there is nothing to compare."""
    if row.ratio is None:
        return "as before" if row.after <= 0.0 else "before they did not wait"
    text = _percent(row.ratio)
    if row.ratio_ci95 is None:
        return text
    low, high = (_percent(each) for each in row.ratio_ci95)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2] != "before":
        ends = sorted((low, high), key=lambda each: float(each.split()[0]))
        return f"{text} (95 %: {ends[0].split()[0]} to {ends[1]})"
    return f"{text} (95 %: {low} to {high})"


def _percent(ratio: float) -> str:
    change = 100.0 * (ratio - 1.0)
    if abs(change) < 0.5:
        return "as before"
    if ratio > 10.0:
        return f"{ratio:.0f} times as much"
    return f"{abs(change):.0f} % {'more' if change > 0 else 'less'}"


def sentence(row: GroupHours, *, each: bool) -> str:
    """What a group waited, before and after.

    Args:
        row: the group.
        each: as `HoursWaited` has it.
    """
    before, after = _both_texts(row.before, row.after)
    waited = f"waited {before} each before and {after} with our order"
    if not each:
        waited = f"waited {before} together in every hour before and {after} with our order"
    return f"{jobs_of(row)} {waited}: {change_text(row)}."


def longest_sentence(row: GroupHours) -> str:
    """How long the job waited that waited longest."""
    before, after = _both_texts(row.longest_before, row.longest_after)
    told = f"longest wait was {before} before and {after} with our order."
    return f"The {told}" if row.by == ALL else f"{jobs_of(row)}: the {told}"


def counts_sentence(hours: HoursWaited) -> str:
    """How many groups gain and lose."""
    gain, lose, unsure = (len(hours.judged(word)) for word in (BETTER, WORSE, INCONCLUSIVE))
    if not hours.groups:
        return "No group has enough jobs to be judged."
    less, longer = (
        f"{count or 'none'} {'waits' if count <= 1 else 'wait'}" for count in (gain, lose)
    )
    return (
        f"Of {len(hours.groups)} groups of jobs {less} less and {longer} longer; of "
        f"{unsure or 'none'} it may be chance."
    )


def sentences(rows: Sequence[GroupHours], most: int, *, each: bool) -> list[str]:
    """A sentence each, and how many are left out.

    Args:
        rows: the groups, those first that matter most.
        most: of how many it is told.
        each: as `HoursWaited` has it.
    """
    told = [sentence(row, each=each) for row in rows[:most]]
    if len(rows) > most:
        more = len(rows) - most
        told.append(f"So did {more} more group{'s' if more > 1 else ''}, by less.")
    return told


def may_lose(hours: HoursWaited) -> list[GroupHours]:
    """Groups that waited longer, which may be chance; those that grew most first."""
    grown = [row for row in hours.judged(INCONCLUSIVE) if row.growth * HOUR >= LEAST_LOSS]
    return [row for row in grown if row.after > 1.05 * row.before]


def longest_losers(hours: HoursWaited) -> list[GroupHours]:
    """Groups whose longest wait is longer by an hour and a tenth at least, the most first."""
    grown = [
        row
        for row in hours.groups
        if row.longest_growth >= 1.0 and row.longest_after > 1.1 * row.longest_before
    ]
    return sorted(grown, key=lambda row: -row.longest_growth)
