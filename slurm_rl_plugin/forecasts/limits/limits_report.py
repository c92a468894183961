"""Limits against run times of a site: by account, and what to ask for next time."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.forecasts.limits.advised_limits import (
    LimitRule,
    SeenLimits,
    chosen_rule,
    judged_rule,
)
from slurm_rl_plugin.forecasts.limits.runs_alike import (
    RunsAlike,
    Template,
    limits_of,
    runs_alike,
)
from slurm_rl_plugin.units import DAY, HOUR, BoolArray

#: Part of the log's time that rules are chosen on; the rest says what the choice is worth.
_CHOSEN_ON = 0.6
#: A run of this part of its limit came close to it.
_CLOSE = 0.9
#: Templates that are named, those with most hours to save.
_NAMED = 50


def limits_report(log: JobLog, days: float) -> dict[str, Any]:
    """Limits against run times.

    Args:
        log: with recorded starts.
        days: at the end of the log that accounts are reported of.
    """
    past, known = runs_alike(log)
    jobs = SeenLimits(past, limits_of(log), log.run_time, log.user)
    border = log.submit[0] + _CHOSEN_ON * (log.submit[-1] - log.submit[0])
    first = log.submit < border
    rule = chosen_rule(jobs, first)
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
        document["rule"] = {
            "fewest": rule.fewest,
            "alike": rule.alike,
            "margin": rule.margin,
            "chosen_on": judged_rule(rule, jobs, first),
        }
        document["held_out"] = judged_rule(rule, jobs, ~first)
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
    """What users who ran jobs lately may ask for next time, by the processor-hours it frees."""
    limit = limits_of(log)
    found: list[dict[str, Any]] = []
    recent: dict[Template, int] = {}
    for place in np.flatnonzero(lately & np.isfinite(limit)).tolist():
        each = Template(int(log.user[place]), int(log.processors[place]), float(limit[place]))
        recent[each] = recent.get(each, 0) + 1
    for template, jobs in recent.items():
        runs = known[template]
        past = RunsAlike(
            template=np.zeros(1, dtype=np.int64),
            seen=np.array([len(runs)]),
            middle=np.array([runs[len(runs) // 2]]),
            longest=np.array([runs[-1]]),
        )
        told = float(rule.advised(past, np.array([template.limit]))[0])
        if np.isfinite(told):
            freed = jobs * template.processors * (template.limit - told) / HOUR
            found.append(
                {
                    "user": log.users[template.user] if template.user >= 0 else "",
                    "processors": template.processors,
                    "limit": template.limit,
                    "runs": len(runs),
                    "longest": runs[-1],
                    "advised": told,
                    "jobs": jobs,
                    "freed_hours": freed,
                }
            )
    return sorted(found, key=_freed)[:_NAMED]


def _freed(each: dict[str, Any]) -> float:
    return -float(each["freed_hours"])
