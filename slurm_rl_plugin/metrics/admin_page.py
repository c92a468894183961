"""The page for administrators: how the daemon is, what it changed, and who got their share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.hook.audit.log import AuditSummary, RankMoves
from slurm_rl_plugin.hook.live_state import CLASSES, UNSEEING, LiveState
from slurm_rl_plugin.html_pages.pages import render
from slurm_rl_plugin.measure.intervals import BETTER, WORSE
from slurm_rl_plugin.readable import span_text

#: A job gained or lost a place in a cycle if it moved by more ranks than this.
MOVED = 10
#: Rows of a table of accounts, those with the largest share or usage first.
_ACCOUNTS = 50
NO_STATE = "It is not known, since the daemon does not answer."
_RESOURCES = {CPUS: "processors", MEMORY: "memory, GiB", GPUS: "GPUs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminView:
    """What the page says in addition to the live state."""

    now: float  #: seconds since the epoch
    problems: Sequence[str]  #: sentences
    facts: Sequence[str]  #: of `status`, each `name: value`
    outstanding: Sequence[str]  #: what is outstanding in the batch system, clauses
    today: AuditSummary | None = None  #: the audit log since midnight; None if it is not shown
    unread: Sequence[str] = ()  #: why the audit log is not known, sentences
    on_port: bool = False  #: the daemon serves the page itself


class _Bar(NamedTuple):
    """A row of two bars, each a part of the widest one."""

    name: str
    first: float
    second: float
    cells: Sequence[str]


def admin_page(state: LiveState | str, view: AdminView) -> str:
    """The page; `state` is a sentence where the daemon does not answer."""
    found = LiveState() if isinstance(state, str) else state
    count = len(view.problems)
    how = "all is well" if not count else "1 problem" if count == 1 else f"{count} problems"
    return render(
        "admin.html",
        title=f"slurm-rl: {how}",
        at=datetime.fromtimestamp(view.now).astimezone().isoformat(" ", "seconds"),
        problems=view.problems,
        facts=[line.partition(": ")[::2] for line in view.facts],
        changes=list(_changes(found, view)),
        moves=[] if view.today is None else list(_moves(view.today)),
        moved=MOVED,
        would=view.today is not None and not view.today.modes.keys() - {"shadow", *UNSEEING},
        unread=view.unread,
        waits=list(_waits(found)),
        accounts=list(_accounts(found)),
        misdelivered=found.misdelivered,
        pending=list(_pending(found)),
        resources=list(_resources(found)),
        experiment=[NO_STATE] if found is not state else list(_experiment(found)),
        goals=found.experiment.goals,
        known=math.isfinite,
        kinds={BETTER: "better", WORSE: "worse"},
        outstanding=view.outstanding,
        on_port=view.on_port,
    )


def port_page(state: LiveState, now: float) -> str:
    """The page as the daemon serves it: it says nothing that the metrics do not publish."""
    outstanding = []
    if carrying := sum(state.with_factor.values()):
        outstanding.append(f"{carrying} pending jobs carry a factor")
    if state.limit.processors is not None and state.mode == "active":
        outstanding.append(f"batch jobs may use {state.limit.processors} processors together")
    view = AdminView(
        now=now,
        problems=state.problems(now),
        facts=[*state.lines(), f"version: {state.version}, {state.adapter} {state.release}"],
        outstanding=outstanding,
        on_port=True,
    )
    return admin_page(state, view)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "0"


def _changes(state: LiveState, view: AdminView) -> Iterator[tuple[str, str]]:
    """What the daemon did, today by the audit log, else since it started."""
    today = view.today
    if today is None:
        yield "Cycles since the daemon started", str(state.cycles)
        yield "Failed cycles", _counts(state.failures)
        yield "Factors written", _counts(state.adjustments)
        yield "External faults that it recovered from", _counts(state.disturbances)
    else:
        yield "Cycles today", f"{today.cycles} ({_counts(today.modes)})"
        yield "Failed cycles", _counts(today.failures)
        yield "Jobs seen", str(today.jobs_seen)
        yield "Factors written", str(today.writes["write"])
        yield "Factors that active mode would have written", str(today.writes["would_write"])
        yield "Cycles in fallback", _counts(today.fallbacks)
        yield "Cycles in which a guard rail acted", _counts(today.guard_rails)
    if state.rank_changes:
        yield "Jobs out of the site's own order now", str(sum(state.rank_changes.values()))


def _moves(today: AuditSummary) -> Iterator[_Bar]:
    """Parts of each group's jobs that moved earlier and later, over all cycles of today."""
    accounts = sorted(today.by_account.items(), key=lambda each: -each[1].count)[:_ACCOUNTS]
    groups: dict[str, RankMoves] = {"all jobs": today.all_moves, **today.by_class}
    groups |= {f"account {name}": each for name, each in accounts}
    for name, moves in groups.items():
        earlier, later = moves.shares(MOVED)
        if earlier is not None and later is not None:
            cells = (_percent(earlier), _percent(later), f"{moves.median() or 0.0:+.0f}")
            yield _Bar(name, earlier, later, cells)


def _waits(state: LiveState) -> Iterator[tuple[str, str, str]]:
    """Group of jobs -> mean wait, and how far it is lifted."""
    for name, wait in state.group_waits.items():
        lift = state.group_lifts.get(name, 0.0)
        yield name, span_text(wait), f"{lift:.2g}" if lift else "no"


def _accounts(state: LiveState) -> Iterator[_Bar]:
    largest = {name: max(share, state.usage.get(name, 0.0)) for name, share in state.shares.items()}
    widest = max(largest.values(), default=0.0) or 1.0
    for name in sorted(largest, key=lambda each: -largest[each])[:_ACCOUNTS]:
        share, usage = state.shares[name], state.usage.get(name, 0.0)
        ratio, lift = state.entitlement.get(name), state.lifts.get(name, 0.0)
        starts = state.account_starts.get(name, 0)
        cells = (
            _percent(share),
            _percent(usage),
            "not known" if ratio is None else _percent(ratio),
            f"{lift:.2g}" if lift else "no",
            str(state.account_pending.get(name, 0)),
            span_text(state.account_waits.get(name, 0.0) / starts) if starts else "none yet",
        )
        yield _Bar(name, share / widest, usage / widest, cells)


def _percent(part: float) -> str:
    return f"{100 * part:.1f}\N{NO-BREAK SPACE}%"


def _pending(state: LiveState) -> Iterator[tuple[str, str, str]]:
    for name in CLASSES:
        mine = [each for each in state.pending if each.job_class == name]
        if mine:
            oldest = span_text(max(each.oldest_age for each in mine))
            yield name, str(sum(each.jobs for each in mine)), oldest


def _resources(state: LiveState) -> Iterator[tuple[str, str, str, str]]:
    for each in state.resources:
        unit = 1024.0 if each.name == MEMORY else 1.0
        amounts = (each.running / unit, each.usable / unit, each.pending / unit)
        if any(amounts):
            running, usable, pending = (f"{amount:,.0f}" for amount in amounts)
            yield _RESOURCES.get(each.name, each.name), running, usable, pending


def _experiment(state: LiveState) -> Iterator[str]:
    report = state.experiment
    if report.phase == "none":
        yield "No experiment is declared."
        return
    now = {
        "site": "the site's own order is in force",
        "ours": "the daemon's order is in force",
        "left_to_site": "the queue is left to the site",
    }.get(report.phase, "no block has begun")
    yield f"State: {report.state or 'unknown'}; {now}."
    yield f"Pairs of blocks that are over: {report.pairs}."
