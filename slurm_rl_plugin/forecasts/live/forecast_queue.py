"""One forecast of a whole queue: sources joined by weights, calibrated bands, documents."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.forecasts.forecast import (
    HORIZONS,
    LEVELS,
    Forecasts,
    Outcomes,
    Tails,
    calibrated,
    horizon_of,
    log_waits,
    places_of,
    pooled,
    scores_by,
    scores_of,
    weights_by_worth,
)
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.forecasts.live.sources import OWN, SOURCES
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Forecasts that must have come true before bands are calibrated.
FEWEST_SCORED = 30
#: Age at which what came true counts half, seconds.
_HALF_LIFE = 7.0 * DAY
#: Least weight of a source in the spread: a source that was right may be wrong next.
_LEAST = 0.1
#: Rounds in which rows that are far off come to count less, and how near is near enough, log10.
_ROUNDS, _NEAR = 8, 0.1
#: Prior weights of SOURCES. The batch system's own start is a plan.
_PRIOR = np.array([0.6, 0.3, 0.1])
#: Seconds of forecasts that are scored together.
LATELY = 28.0 * DAY
#: Partitions that are named at most, those with most waiting jobs.
_PARTITIONS = 8
#: Times for which a forecast gives the chance of a start: name -> seconds.
CHANCES = {"10 minutes": 10.0 * MINUTE, "1 hour": HOUR, "1 day": DAY}
#: The nominal part of a 90 % band, and how far off coverage may be before it is said.
_PART, _OFF = 0.9, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedForecasts:
    """Forecasts of some jobs at a moment."""

    #: Log10 of the wait by each of SOURCES, nan where it said nothing, [n, sources].
    sources: FloatArray
    weights: FloatArray  #: of SOURCES, where all speak
    kind: IntArray  #: class and horizon as one number, shape [n]
    plain: Forecasts  #: before the bands were set
    forecasts: Forecasts  #: as they are given
    scored: int  #: forecasts that have come true and that the bands are made of
    tails: Tails  #: shares that the bands leave out below and above

    def of(self, rows: IntArray) -> JoinedForecasts:
        """The same of some of the jobs."""
        return replace(
            self,
            sources=self.sources[rows],
            kind=self.kind[rows],
            plain=self.plain.select(rows),
            forecasts=self.forecasts.select(rows),
        )


def join(
    replays: Forecasts,
    past: Forecasts | None,
    own: FloatArray,
    interactive: BoolArray,
    earlier: GivenRows,
    now: float,
) -> JoinedForecasts:
    """Join the sources for some jobs; `own` is nan without a start of the batch system, [n]."""
    nothing = np.full(len(replays), np.nan)
    of_past = nothing if past is None else log_waits(past.median)
    sources = np.column_stack([log_waits(replays.median), of_past, log_waits(own)])
    weights = worth(earlier, now)
    middle = _filled(sources) @ weights
    spreads = [replays] if past is None else [replays, past]
    plain = about(middle, pooled(spreads, np.maximum(weights[: len(spreads)], _LEAST)))
    kind = 2 * horizon_of(plain) + interactive
    outcomes, tails = _outcomes(earlier, now), _tails(earlier, now)
    scored = int(outcomes.known.sum())
    told = plain if scored < FEWEST_SCORED else calibrated(plain, kind, outcomes, tails)
    return JoinedForecasts(
        sources=sources,
        weights=weights,
        kind=kind,
        plain=plain,
        forecasts=told,
        scored=scored,
        tails=tails,
    )


def worth(earlier: GivenRows, now: float) -> FloatArray:
    """Weights of SOURCES with which they were closest, none negative, 1 in all."""
    over = earlier.known & np.isfinite(earlier.sources[:, 0])
    if not over.any():
        return _PRIOR
    said, wait = _filled(earlier.sources[over]), earlier.wait_by(now)[over]
    decayed = 0.5 ** ((now - earlier.moment[over]) / _HALF_LIFE)
    counts = one_user_capped(decayed, earlier.user[over])
    truth, found = log_waits(wait), _PRIOR
    for _ in range(_ROUNDS):
        # weights of the least absolute error by reweighted squares: a few forecasts that are off by
        # factors of a thousand must not choose for all others
        off = np.abs(said @ found - truth)
        found = weights_by_worth(said.T, truth, counts / np.maximum(off, _NEAR), _PRIOR)
    return found


def about(middle: FloatArray, spread: Forecasts) -> Forecasts:
    """The spread with another median, log10 of seconds; its other quantiles stay on their sides."""
    logs, half = spread.logs, len(LEVELS) // 2
    logs[:, :half] = np.minimum(logs[:, :half], middle[:, None])
    logs[:, half] = middle
    logs[:, half + 1 :] = np.maximum(logs[:, half + 1 :], middle[:, None])
    return Forecasts.of_logs(logs)


def _filled(sources: FloatArray) -> FloatArray:
    """Who says nothing is taken to say what replays do, so that he counts for and against none."""
    return np.where(np.isnan(sources), sources[:, :1], sources)


def _outcomes(earlier: GivenRows, now: float) -> Outcomes:
    counted = ~earlier.gone | earlier.known
    wait = np.maximum(earlier.wait_by(now), 0.0)
    return Outcomes(
        place=places_of(earlier.plain, log_waits(wait))[counted],
        known=earlier.known[counted],
        weight=(earlier.counts * 0.5 ** ((now - earlier.moment) / _HALF_LIFE))[counted],
        kind=earlier.kind[counted],
        user=earlier.user[counted],
    )


def _tails(earlier: GivenRows, now: float) -> Tails:
    """Shares moved by what the bands of each earlier day have missed so far."""
    tails = Tails()
    counted = earlier.shown & (~earlier.gone | earlier.known)
    day = np.floor((earlier.moment - now) / DAY)
    wait = earlier.wait_by(now)
    low, high = earlier.forecasts.band(0.9)
    missed_below, missed_above = (wait < low) & earlier.known, wait > high
    for each in np.unique(day[counted]):
        here = counted & (day == each)
        counts = one_user_capped(earlier.counts[here], earlier.user[here])
        sides = (missed_below[here], missed_above[here])
        tails = tails.after(*(float(np.average(side, weights=counts)) for side in sides))
    return tails


def scores_document(rows: GivenRows, now: float) -> dict[str, Any]:
    """Scores of the last weeks' forecasts whose jobs have started."""
    lately = rows.moment >= now - LATELY
    over = lately & rows.known
    found: dict[str, Any] = {
        "given": _number(rows, lately),
        "started": _number(rows, over),
        "gone": _number(rows, lately & rows.gone),
        "enough": int(over.sum()) >= FEWEST_SCORED,
    }
    if not over.any():
        return found
    told, wait = rows.forecasts.select(over), rows.wait_by(now)[over]
    names = list(HORIZONS)
    labels = {
        "class": np.where(rows.interactive[over], "interactive", "batch"),
        "partition": rows.partition[over],
        "horizon": np.array([names[each] for each in horizon_of(told)]),
    }
    found["all"] = scores_of(told, wait).as_json()
    for what, each in labels.items():
        found[what] = {name: one.as_json() for name, one in scores_by(each, told, wait).items()}
    found["sources"] = _of_sources(rows, over, now)
    return found


def _number(rows: GivenRows, which: BoolArray) -> int:
    """How many forecasts some rows stand for."""
    return round(float(rows.stands_for[which].sum()))


def _of_sources(rows: GivenRows, over: BoolArray, now: float) -> dict[str, Any]:
    """Median error of each source, and of the forecasts of the same jobs."""
    found = {}
    for place, name in enumerate(SOURCES):
        spoke = over & np.isfinite(rows.sources[:, place])
        if not spoke.any():
            continue
        truth = log_waits(rows.wait_by(now)[spoke])
        told = log_waits(rows.forecasts.select(spoke).median)
        found[name] = {
            "jobs": int(spoke.sum()),
            "median_error": float(np.median(np.abs(rows.sources[spoke, place] - truth))),
            "told_median_error": float(np.median(np.abs(told - truth))),
        }
    started = int(over.sum())
    if OWN in found:
        found[OWN]["part_of_jobs"] = found[OWN]["jobs"] / started
    return found


def notice_text(queue: ForecastQueue) -> str:
    """How many wait in each partition, and when half of them will have started."""
    jobs, told = queue.snapshot.pending.jobs, queue.place >= 0
    text = f"{len(queue.snapshot.running)} jobs run and {len(jobs)} wait on this cluster.\n"
    if not queue.calibrated or not told.any():
        return text
    median = np.full(len(jobs), np.nan)
    median[told] = queue.told.forecasts.median[queue.place[told]]
    numbers, counts = np.unique(jobs.partition[told], return_counts=True)
    for number in numbers[np.argsort(-counts, kind="stable")][:_PARTITIONS].tolist():
        here = told & (jobs.partition == number)
        within = span(float(np.median(median[here])))
        name = queue.snapshot.partitions[number]
        text += f"{name}: {int(here.sum())} wait, half of them start within {within}.\n"
    return f"{text}slurm-rl start shows when yours start.\n"


def span(seconds: float) -> str:
    """A span of time in its largest unit."""
    for unit, word in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {word}"
    return "2 minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQueue:
    """The forecasts of the pending jobs of one look."""

    snapshot: QueueSnapshot  #: the look
    #: Of each pending job its row in `told`; -1 without a forecast.
    place: IntArray
    why_not: tuple[str, ...]  #: of each pending job why it has no forecast; "" if it has one
    ahead: IntArray  #: jobs that go first in its partition, shape [pending]
    of_account: IntArray  #: those of them that are of its account, shape [pending]
    told: JoinedForecasts  #: the forecasts
    covered: float  #: part of the last weeks' waits inside the 90 % band; nan for none
    unready: str = ""  #: what the service still reads or does; "" for nothing
    knows_runs: bool = True  #: whether accounting knows any run

    @property
    def calibrated(self) -> bool:
        """Whether enough forecasts have come true on this site to adjust the bands by them."""
        return self.told.scored >= FEWEST_SCORED

    @property
    def note(self) -> str:
        """How far the forecasts can be relied on, in sentences; "" if the bands hold."""
        words = []
        if not self.knows_runs:
            words.append(
                "no finished job is known from accounting, so jobs are taken to run as long as "
                "their limits."
            )
        if not self.calibrated:
            outcomes = f"{self.told.scored} of {FEWEST_SCORED} forecasts have come true"
            words.append(
                f"not yet calibrated on this cluster ({self.unready or outcomes}), so the bands "
                "may be too narrow."
            )
        elif np.isfinite(self.covered) and abs(self.covered - _PART) > _OFF:
            what = "wider" if self.covered < _PART else "narrower"
            words.append(
                f"recently {self.covered:.0%} of the waits lay inside the 90 % band, so it is "
                f"being made {what}."
            )
        return " ".join(words)

    def users_jobs(self, user: str | None) -> list[int]:
        """Places of a user's pending jobs; of all of them for None."""
        if user is None:
            return list(range(len(self.snapshot.pending)))
        if user not in self.snapshot.users:
            return []
        number = self.snapshot.users.index(user)
        return np.flatnonzero(self.snapshot.pending.jobs.user == number).tolist()

    def place_of(self, job: int) -> int | None:
        """Place of a pending job by its number; None for one that does not wait."""
        found = np.flatnonzero(self.snapshot.pending.jobs.job_id == job)
        return int(found[0]) if len(found) else None

    def user_of(self, place: int) -> str:
        """The user of a pending job; "" if unknown."""
        number = int(self.snapshot.pending.jobs.user[place])
        return self.snapshot.users[number] if number >= 0 else ""

    def has_job_of(self, user: str, account: str) -> bool:
        """Whether a user has a job of an account in the look, whatever it does."""
        look = self.snapshot
        if user not in look.users or account not in look.accounts:
            return False
        of_user, of_account = look.users.index(user), look.accounts.index(account)
        return any(
            bool(((table.jobs.user == of_user) & (table.jobs.account == of_account)).any())
            for table in (look.pending, look.running, look.started, look.ended)
        )

    def documents(self, places: list[int]) -> list[dict[str, Any]]:
        """The documents of some pending jobs; times in seconds since the epoch."""
        look, note = self.snapshot, self.note or None
        jobs, tasks, reason = look.pending.jobs, look.pending.tasks, look.pending.reason
        return [
            {
                "job": int(jobs.job_id[place]),
                "user": self.user_of(place),
                "account": look.accounts[jobs.account[place]],
                "partition": look.partitions[jobs.partition[place]],
                "class": "interactive" if jobs.interactive[place] else "batch",
                "tasks": 1 if tasks is None else int(tasks[place]),
                "foretold": look.now,
                "forecast": forecast,
                "calibrated": self.calibrated,
                "reason": None if reason is None else look.reasons[reason[place]] or None,
                "why_not": self.why_not[place] or None,
                "ahead": int(self.ahead[place]),
                "ahead_of_account": int(self.of_account[place]),
                "note": note,
            }
            for place, forecast in zip(places, self._forecasts(places), strict=True)
        ]

    def _forecasts(self, places: list[int]) -> list[dict[str, Any] | None]:
        """The forecast of each; None for none."""
        found: list[dict[str, Any] | None] = [None] * len(places)
        rows = self.place[places]
        has = np.flatnonzero(rows >= 0)
        if not len(has):
            return found
        told = self.told.of(rows[has])
        documents = forecast_documents(told.forecasts, self.snapshot.now)
        for at, document, sources in zip(has.tolist(), documents, told.sources, strict=True):
            starts = (self.snapshot.now + 10.0**sources).tolist()
            document["sources"] = {
                name: None if math.isnan(start) else start
                for name, start in zip(SOURCES, starts, strict=True)
            }
            weights = np.where(np.isnan(sources), 0.0, self.told.weights)
            weights[0] += 1.0 - weights.sum()  # the first has those of who says nothing
            document["weights"] = dict(zip(SOURCES, weights.tolist(), strict=True))
            found[at] = document
        return found


def forecast_documents(many: Forecasts, now: float) -> list[dict[str, Any]]:
    """The forecast of each job: its start, in seconds since the epoch, and chances."""
    bands = {
        f"{part:.0%}".replace("%", " %"): (now + np.stack(many.band(part), axis=1)).tolist()
        for part in (0.5, 0.9)
    }
    chances = {name: many.chance_within(by).tolist() for name, by in CHANCES.items()}
    return [
        {
            "start": start,
            "bands": {name: ends[row] for name, ends in bands.items()},
            "chances": {name: chance[row] for name, chance in chances.items()},
        }
        for row, start in enumerate((now + many.median).tolist())
    ]


def ahead_of(
    snapshot: QueueSnapshot, scores: FloatArray | None = None
) -> tuple[IntArray, IntArray]:
    """How many waiting jobs of its partition go before each, and how many of its account.

    By scores of the pending jobs, higher goes first; by default by their priorities.
    """
    pending = snapshot.pending
    points = pending.native_priority + pending.factor if scores is None else scores
    order = np.lexsort((pending.jobs.job_id, pending.jobs.submit, -points))
    count = snapshot.each_waits_as.astype(np.int64)
    found = []
    groups = (pending.jobs.partition, pending.jobs.partition * (1 + len(snapshot.accounts)))
    for number, group in enumerate(groups):
        codes = group + (pending.jobs.account if number else 0)
        before = np.zeros(len(pending), dtype=np.int64)
        for code in np.unique(codes):
            mine = order[codes[order] == code]
            before[mine] = np.cumsum(count[mine]) - count[mine]
        found.append(before)
    return found[0], found[1]
