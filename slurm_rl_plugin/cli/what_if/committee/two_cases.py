"""The committee's page of a replay (shadow mode), and that of an experiment on the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np

from slurm_rl_plugin.cli.evaluate.study.site_replay import SiteReplay
from slurm_rl_plugin.cli.evaluate.study.verdict import verdict_sentence
from slurm_rl_plugin.cli.what_if.committee.page import CommitteePage, page_html
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.learning.evaluation.recorded_replay import RECORDED_ORDER
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.what_if.committee.block_waits import hours_in_blocks
from slurm_rl_plugin.what_if.committee.replayed_waits import hours_in_replays
from slurm_rl_plugin.what_if.switchback.costs import GOALS, JobTimes
from slurm_rl_plugin.what_if.switchback.findings import GoalFinding
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

#: Seed of what is drawn again: the same page each time.
_SEED = 1
_SURE = {BETTER: "better with {}", WORSE: "worse with {}", INCONCLUSIVE: "inconclusive so far"}


def replay_page(found: SiteReplay, warning: str | None) -> str:
    """The page of a replay: both orders are simulated.

    Args:
        found: the replay.
        warning: what is wrong with what was recorded; None for nothing.

    Returns:
        HTML.
    """
    model, schedules = found.study["model"], found.replayed.schedules
    hours = hours_in_replays(
        found.known,
        schedules[RECORDED_ORDER],
        schedules[model],
        found.replayed.measured,
        np.random.default_rng(_SEED),
    )
    page = CommitteePage(
        title="What the new order of the queue would have done to your waits",
        about=(
            f"{found.replayed.counted:,} jobs of {_days(*found.days)}. Nothing was changed on the "
            "cluster: both orders were simulated, on the same jobs."
        ),
        before="the site's own order, simulated",
        after=f"our order ({model}), simulated",
        hours=hours,
        verdict="",
        warnings=(warning,) if warning else (),
        found=(
            "Before: the jobs in the order in which the site really started them, on a simulated "
            "machine. After: the same jobs on the same machine in our order, as it is configured. "
            "Waits as they were recorded are not used, since they hold outages that no simulation "
            "knows.",
            f"The verdict of the whole report: {verdict_sentence(found.prediction)}",
            *found.study["notices"],
            f"Nobody knows: {'; '.join(found.prediction['not_known'])}.",
        ),
    )
    return page_html(page)


def experiment_page(
    declared: Declaration,
    times: JobTimes,
    cluster: ReplayedCluster | None,
    findings: Sequence[GoalFinding],
    accounts: Sequence[str],
    verdict: str,
    *,
    now: float,
    resources: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> str:
    """The page of an experiment: what was really waited under both orders, in turns.

    Args:
        declared: the experiment.
        times: every known job, with its real start.
        cluster: to play each block again, by which much less is left to chance; None without.
        findings: what is known of each goal.
        accounts: names; `times.jobs.account` counts in them.
        verdict: what is said of it all, one sentence.
        now: seconds since the epoch; pairs of which both blocks are over by then are counted.
        resources: names of the columns of `times.jobs.asked`; () for none.
        progress: called with 1 after each block, at most once for each that is over.

    Returns:
        HTML.

    Raises:
        ConfigurationError: no pair of blocks is over yet.
    """
    hours = hours_in_blocks(
        declared,
        times,
        cluster,
        accounts,
        np.random.default_rng(_SEED),
        now=now,
        resources=resources,
        progress=progress,
    )
    closed = declared.closed(now)
    page = CommitteePage(
        title="What the new order of the queue did to your waits",
        about=(
            f"An experiment of {_days(declared.begin, declared.blocks[closed - 1].end)}: "
            f"{_present(declared)} and {_trial(declared)} ({declared.policy or 'a rule'}) held the "
            f"queue in turns, for {closed} stretches of {_lengths(declared, closed)}; coins said "
            "who was when."
        ),
        before=_present(declared) + ("" if cluster is None else ", in the same hours"),
        after=_trial(declared),
        hours=hours,
        verdict=verdict,
        goals=tuple(_goal(declared, each) for each in findings),
        found=_found(declared, cluster),
    )
    return page_html(page)


def _present(declared: Declaration) -> str:
    """What the queue would have without the experiment."""
    return "the order as it was" if declared.candidate else "the site's own order"


def _trial(declared: Declaration) -> str:
    """What is on trial."""
    return "the new order" if declared.candidate else "our order"


def _found(declared: Declaration, cluster: ReplayedCluster | None) -> tuple[str, ...]:
    present = _present(declared)
    counted = (
        "Each hour of a wait belongs to the order that was in force then; the first eighth of a "
        "stretch (an hour at most) is not counted, since what came before still acts. Hours "
        "waited together in an hour are as many as jobs that wait, in the mean."
    )
    measured = (
        "After: as it was measured. Before: as it was measured in the same hours of the day before "
        f"or after, which {present} held."
    )
    if cluster is not None:
        measured = (
            f"After: as it was measured. Before: what {present} would have cost in the very same "
            "hours: from what was measured under both, with what the load alone did taken away by "
            "replays of each stretch under both. Longest waits are as measured, each order in its "
            "own stretches."
        )
    return counted, measured


def _goal(declared: Declaration, found: GoalFinding) -> str:
    """`Jobs that wait, mean: better with our order, 12 % less (5 to 20 % less); ...`."""
    effect = found.effect
    name = GOALS[found.goal].meaning
    text = f"{name[0].upper()}{name[1:]}: {_SURE[found.word].format(_trial(declared))}"
    if math.isfinite(effect.estimate):
        text += f", {100.0 * math.expm1(effect.estimate):+.0f} %"
        if math.isfinite(effect.low) and math.isfinite(effect.high):
            low, high = (100.0 * math.expm1(each) for each in (effect.low, effect.high))
            text += f" (between {low:+.0f} and {high:+.0f} %)"
    return f"{text}{'; this one decides' if found.decides else ''}."


def _lengths(declared: Declaration, closed: int) -> str:
    hours = [(each.end - each.begin) / HOUR for each in declared.blocks[:closed]]
    short, long = (f"{each:.2g}" for each in (min(hours), max(hours)))
    return f"{short} hours" if short == long else f"{short} to {long} hours"


def _days(first: float, last: float) -> str:
    """`2026-11-01 to 2026-11-28`, by the local clock."""
    days = [datetime.fromtimestamp(each).date().isoformat() for each in (first, last)]
    return " to ".join(days)
