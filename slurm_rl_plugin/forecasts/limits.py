"""Limits against run times of a site: by account, and what limit to ask for next time.

The advised limit is the longest similar run plus a margin. How many runs must have been seen, how
similar they must be and how large the margin is, is chosen on the site's own past, so that at most
one in a hundred of the advised jobs would have been killed. If no choice is that safe, nothing is
advised.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import compress, product
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Part of the advised jobs that may be killed at most.
KILLED = 0.01
#: Nothing is advised that is above this part of what was asked for.
_WORTH = 0.8
#: Fewest advised jobs that a choice is judged by, and fewest templates that they are of.
FEWEST_JUDGED, _FEWEST_TEMPLATES = 300, 20
#: Standard errors above the part that was killed that must be safe too.
_SURE = 1.645
#: What is tried.
_FEWEST, _MARGINS, _ALIKE = (10, 20, 40), (1.1, 1.25, 1.5, 2.0, 2.5), (1.2, 1.5, 2.0, 3.0, 5.0)
#: Part of the log's time that rules are chosen on; the rest tests the choice.
_CHOSEN_ON = 0.6
#: A run of this part of its limit came close to it.
_CLOSE = 0.9
#: Templates that are named, those with most hours to save.
_NAMED = 50


class RunsAlike(NamedTuple):
    """Of each job the ended runs of its user with the same processors and limit; shape [n]."""

    template: IntArray  #: number of its user with these processors and this limit
    seen: IntArray  #: how many
    middle: FloatArray  #: their median, seconds; nan for none
    longest: FloatArray  #: seconds; nan for none


class Template(NamedTuple):
    """Jobs of one user that ask for the same."""

    user: int
    processors: int
    limit: float


def limits_of(log: JobLog) -> FloatArray:
    """Requested seconds, nan for none, shape [n]."""
    return np.where(np.isfinite(log.time_limit) & (log.time_limit > 0), log.time_limit, np.nan)


def templates_of(log: JobLog) -> list[Template]:
    """The template of each job."""
    columns = (log.user, log.processors, limits_of(log))
    return [Template(*each) for each in zip(*(row.tolist() for row in columns), strict=True)]


def runs_alike(log: JobLog) -> tuple[RunsAlike, dict[Template, list[float]]]:
    """What was known of each job's like at its submission, and all runs by template, ascending."""
    templates = templates_of(log)
    end = np.where(np.isfinite(log.start), log.start, log.submit) + log.run_time
    ended = np.argsort(end, kind="stable").tolist()
    known: dict[Template, list[float]] = {}
    seen = np.zeros(len(log), dtype=np.int64)
    middle, longest = np.full(len(log), np.nan), np.full(len(log), np.nan)
    place, run_time = 0, log.run_time.tolist()
    for job, submit in enumerate(log.submit.tolist()):
        while place < len(ended) and end[ended[place]] <= submit:
            insort(known.setdefault(templates[ended[place]], []), run_time[ended[place]])
            place += 1
        runs = known.get(templates[job])
        if runs:
            seen[job], middle[job], longest[job] = len(runs), runs[len(runs) // 2], runs[-1]
    for job in ended[place:]:
        insort(known.setdefault(templates[job], []), run_time[job])
    numbers = {each: number for number, each in enumerate(dict.fromkeys(templates))}
    template = np.array([numbers[each] for each in templates], dtype=np.int64)
    return RunsAlike(template=template, seen=seen, middle=middle, longest=longest), known


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """When a limit is advised, and which."""

    fewest: int  #: similar runs that must have been seen
    alike: float  #: the longest of them over their median at most
    margin: float  #: the limit over the longest

    def advised(self, past: RunsAlike, limit: FloatArray) -> FloatArray:
        """Limits in whole minutes, seconds; nan where none is advised; shape [n]."""
        known = (past.seen >= self.fewest) & (past.longest <= self.alike * past.middle)
        shorter = np.ceil(self.margin * past.longest / MINUTE) * MINUTE
        return np.where(known & (shorter <= _WORTH * limit), shorter, np.nan)


def chosen_rule(log: JobLog, past: RunsAlike, judged: BoolArray) -> LimitRule | None:
    """The safe rule that takes most hours off the limits; None where none is safe.

    One user has at most half of the weight, or the rule for all would be that user's. `past` is
    what was known of each job's like at its submission; `judged` are the jobs to choose by, [n].
    """
    best, most, limit = None, 0.0, limits_of(log)
    for fewest, margin, alike in product(_FEWEST, _MARGINS, _ALIKE):
        rule = LimitRule(fewest=fewest, margin=margin, alike=alike)
        shorter = rule.advised(past, limit)
        spoke = judged & np.isfinite(shorter)
        killed = log.run_time[spoke] > shorter[spoke]
        weight = one_user_capped(np.ones(len(killed)), log.user[spoke])
        if killed_at_most(killed, past.template[spoke], weight) > KILLED:
            continue
        saved = float((limit[spoke] - shorter[spoke]) @ weight)
        if saved > most:
            best, most = rule, saved
    return best


def killed_at_most(killed: BoolArray, template: IntArray, weight: FloatArray) -> float:
    """Upper end of the interval of the part that is killed; 1 if there are too few jobs.

    Jobs of a template are killed together, when its runs get longer, so templates are drawn and
    not jobs: the linearised variance of a ratio over clusters (Cochran, "Sampling Techniques",
    1977, 6.3). All columns are of the advised jobs, shape [m].
    """
    _, place = np.unique(template, return_inverse=True)
    count = int(place.max(initial=-1)) + 1
    if len(killed) < FEWEST_JUDGED or count < _FEWEST_TEMPLATES:
        return 1.0
    part = float(np.average(killed, weights=weight))
    off = np.bincount(place, weight * (killed - part))
    error = float(np.sqrt((off**2).sum() * count / (count - 1.0)) / weight.sum())
    return part + _SURE * error


def judged_rule(rule: LimitRule, log: JobLog, past: RunsAlike, judged: BoolArray) -> dict[str, Any]:
    """What a rule would have come to on some jobs of a log; arguments as of `chosen_rule`."""
    limit = limits_of(log)
    shorter = rule.advised(past, limit)
    spoke = judged & np.isfinite(shorter)
    found: dict[str, Any] = {"jobs": int(judged.sum()), "advised": int(spoke.sum())}
    if spoke.any():
        ran, asked = log.run_time[spoke], limit[spoke]
        found |= {
            "killed": float((ran > shorter[spoke]).mean()),
            "over_run_time": float(np.median(shorter[spoke] / ran)),
            "asked_over_run_time": float(np.median(asked / ran)),
        }
    return found


def limits_report(log: JobLog, days: float) -> dict[str, Any]:
    """Limits against run times; `days`: at the end of the log that accounts are reported of."""
    past, known = runs_alike(log)
    border = log.submit[0] + _CHOSEN_ON * (log.submit[-1] - log.submit[0])
    first = log.submit < border
    rule = chosen_rule(log, past, first)
    lately = log.submit >= log.submit[-1] - days * DAY
    document: dict[str, Any] = {
        "days": days,
        "jobs": int(lately.sum()),
        "accounts": _accounts(log, lately),
        "rule": None,
        "held_out": None,
        "templates": [],
    }
    if rule is not None:
        document["rule"] = asdict(rule) | {"chosen_on": judged_rule(rule, log, past, first)}
        document["held_out"] = judged_rule(rule, log, past, ~first)
        document["templates"] = _templates(log, known, rule, lately)
    return document


def _accounts(log: JobLog, lately: BoolArray) -> list[dict[str, Any]]:
    """Of each account what it asked for and used, those that asked for most first."""
    limit, found = limits_of(log), []
    for number, name in enumerate(log.accounts):
        mine = lately & (log.account == number) & np.isfinite(limit)
        if not mine.any():
            continue
        ran, asked, wide = log.run_time[mine], limit[mine], log.processors[mine]
        found.append(
            {
                "account": name,
                "jobs": int(mine.sum()),
                "limit_over_run_time": float(np.median(asked / ran)),
                "asked_hours": float((asked * wide).sum() / HOUR),
                "used_hours": float((np.minimum(ran, asked) * wide).sum() / HOUR),
                "close_to_limit": float((ran >= _CLOSE * asked).mean()),
                "at_limit": float((ran >= asked).mean()),
            }
        )
    return sorted(found, key=lambda each: -float(each["asked_hours"]))


def _templates(
    log: JobLog, known: dict[Template, list[float]], rule: LimitRule, lately: BoolArray
) -> list[dict[str, Any]]:
    """What users with recent jobs may ask for next time, by the processor-hours it frees."""
    asked = compress(templates_of(log), (lately & np.isfinite(limits_of(log))).tolist())
    recent = Counter(asked)
    runs = [known[each] for each in recent]
    past = RunsAlike(
        template=np.arange(len(runs)),
        seen=np.array(list(map(len, runs))),
        middle=np.array([each[len(each) // 2] for each in runs]),
        longest=np.array([each[-1] for each in runs]),
    )
    advised = rule.advised(past, np.array([each.limit for each in recent])).tolist()
    found: list[dict[str, Any]] = [
        {
            "user": log.users[template.user] if template.user >= 0 else "",
            "processors": template.processors,
            "limit": template.limit,
            "runs": len(own),
            "longest": own[-1],
            "advised": shorter,
            "jobs": jobs,
            "freed_hours": jobs * template.processors * (template.limit - shorter) / HOUR,
        }
        for (template, jobs), own, shorter in zip(recent.items(), runs, advised, strict=True)
        if np.isfinite(shorter)
    ]
    return sorted(found, key=lambda each: -float(each["freed_hours"]))[:_NAMED]
