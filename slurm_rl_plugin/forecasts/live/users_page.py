"""The page on which users see when their jobs start, as values of its template."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from slurm_rl_plugin.forecasts.live.forecast_queue import ForecastQueue
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.html_pages.pages import render
from slurm_rl_plugin.readable import span_text
from slurm_rl_plugin.units import DAY, HOUR, MINUTE

#: Jobs of the table at most: those that start first.
MOST_JOBS = 100
#: The page compares jobs that started within this time, seconds, with their forecasts; how many.
STARTED_SINCE, MOST_STARTED = 7.0 * DAY, 6
#: The time line: waits below this lie close together; place of the end of the longest band, %.
_SHORT, _FAR = 10.0 * MINUTE, 92.0
#: Marks of the time line, and how many per cent lie between two of them at least.
_MARKS = {
    "10 min": 10.0 * MINUTE,
    "1 h": HOUR,
    "3 h": 3.0 * HOUR,
    "6 h": 6.0 * HOUR,
    "12 h": 12.0 * HOUR,
    "1 day": DAY,
    "2 days": 2.0 * DAY,
    "4 days": 4.0 * DAY,
    "1 week": 7.0 * DAY,
    "2 weeks": 14.0 * DAY,
    "1 month": 30.0 * DAY,
}
_APART = 20.0
#: Distance of a time, seconds, and to what it is rounded: users do not plan to the minute.
_ROUNDED = (
    (HOUR, MINUTE),
    (6.0 * HOUR, 5.0 * MINUTE),
    (2.0 * DAY, 30.0 * MINUTE),
    (math.inf, HOUR),
)


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Places of times from now to the far end of the longest band, in per cent."""

    far: float  #: seconds

    def place(self, wait: float) -> float:
        """Place of a wait, seconds; equal steps are shorter the farther ahead they lie."""
        return round(_FAR * math.log1p(max(wait, 0.0) / _SHORT) / math.log1p(self.far / _SHORT), 2)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """Place and label of each mark after now."""
        found: list[tuple[float, str]] = []
        for label, wait in _MARKS.items():
            place = self.place(wait)
            if place <= _FAR and place - (found[-1][0] if found else 0.0) >= _APART:
                found.append((place, label))
        return found


def users_page(
    queue: ForecastQueue,
    user: str,
    *,
    is_own: bool,
    started: GivenRows | None,
    scores: Mapping[str, Any],
    advice: Mapping[int, list[dict[str, Any]]],
    now: float,
    old: str | None,
) -> str:
    """The page of one user.

    Args:
        is_own: whether the user is the one who looks.
        started: first forecasts of the user's jobs that have started; None if not known.
        advice: what other requests would bring, for the jobs for which the client asked.
        now: seconds since the epoch.
        old: a sentence, if the snapshot is old.
    """
    look, (places, hidden) = queue.snapshot, _first_places(queue, user)
    documents = queue.documents(places)
    told = [job["forecast"] for job in documents if job["forecast"]]
    line = TimeLine(max([HOUR, *(each["bands"]["90 %"][1] - look.now for each in told)]))
    notes = [job["note"] for job in documents if job["note"]]
    could_start = look.waits_for_machine[places].tolist()
    return render(
        "users.html",
        title="When your jobs start" if is_own else f"When the jobs of {user} start",
        user=user,
        is_own=is_own,
        seen=f"{datetime.fromtimestamp(look.now):%H:%M:%S}",
        age=span_text(max(now - look.now, 0.0)),
        zone=datetime.fromtimestamp(now).astimezone().tzname() or "",
        old=_sentence(old) if old else None,
        notes=[_sentence(each) for each in dict.fromkeys(notes)],
        jobs=[
            _pending(job, look.now, now, line, advice, could_start=could)
            for job, could in zip(documents, could_start, strict=True)
        ],
        hidden=hidden,
        marks=line.marks,
        accounts=_accounts(queue, user),
        started=[] if started is None else _started(started, now),
        scores=scores,
    )


def _first_places(queue: ForecastQueue, user: str) -> tuple[list[int], int]:
    """Places of the jobs that start first, and how many further jobs there are."""
    places = np.array(queue.users_jobs(user), dtype=np.int64)
    row = queue.place[places]
    median = np.full(len(places), np.inf)
    median[row >= 0] = queue.told.forecasts.median[row[row >= 0]]
    first = places[np.argsort(median, kind="stable")][:MOST_JOBS]
    return first.tolist(), len(places) - len(first)


def _pending(
    job: Mapping[str, Any],
    look: float,
    now: float,
    line: TimeLine,
    advice: Mapping[int, list[dict[str, Any]]],
    *,
    could_start: bool,
) -> dict[str, Any]:
    """The document of a job, with sentences and the places of its bands on the time line."""
    forecast, why = job["forecast"], [job["reason"]] if job["reason"] else []
    if job["why_not"] and (could_start or not why):  # else the batch system's reason says it
        why.append(job["why_not"])
    wide, narrow = (
        forecast and tuple(line.place(end - look) for end in forecast["bands"][part])
        for part in ("90 %", "50 %")
    )
    return {
        **job,
        "start": start_sentence(forecast, look, now) if forecast else "No forecast.",
        "wide": wide,
        "narrow": narrow,
        "median": line.place(forecast["start"] - look) if forecast else None,
        "why": list(map(_sentence, why)),
        "advice": advice.get(job["job"]),
    }


def start_sentence(forecast: Mapping[str, Any], look: float, now: float) -> str:
    """As `Probably between 14:10 and 16:40 (9 of 10 such jobs); half of them start by 15:00.`.

    Days are those of the reader, for whom it may be past midnight.
    """
    low, high = forecast["bands"]["90 %"]
    if high - look < 10.0 * MINUTE:
        return "Probably within 10 minutes."
    if low - look < MINUTE:
        between = f"now and {clock_text(high, now)}"
    else:
        between = " and ".join(both_times(low, high, now))
    return f"Probably between {between} (9 of 10 such jobs); half of them start by " + (
        f"{clock_text(forecast['start'], now)}."
    )


def both_times(first: float, second: float, now: float, today: str = "") -> tuple[str, str]:
    """Two times, the second one without its day if both are of the same day."""
    begin, end = clock_text(first, now, today), clock_text(second, now, today or "today ")
    (day, _, _), (other, _, clock) = begin.rpartition(" "), end.rpartition(" ")
    same = day == other or (not day and other == "today")
    return begin, clock if same else end


def clock_text(at: float, now: float, today: str = "") -> str:
    """A time by the local clock, rounded: `14:10`, `tomorrow 03:00`, `Fri 4 Dec 09:00`.

    A time of this day begins with `today`.
    """
    step = next(step for until, step in _ROUNDED if abs(at - now) <= until)
    when = datetime.fromtimestamp(round(at / step) * step)
    days = (when.date() - datetime.fromtimestamp(now).date()) // timedelta(days=1)
    named = {0: today, 1: "tomorrow ", -1: "yesterday "}.get(days)
    return f"{when:%a} {when.day} {when:%b %H:%M}" if named is None else f"{named}{when:%H:%M}"


def _accounts(queue: ForecastQueue, user: str) -> list[dict[str, Any]]:
    """The accounts of the user's jobs in the last snapshot, in per cent of the cluster."""
    look = queue.snapshot
    if user not in look.users:
        return []
    number = look.users.index(user)
    tables = [each.jobs for each in (look.pending, look.running, look.started, look.ended)]
    used = np.unique(np.concatenate([jobs.account[jobs.user == number] for jobs in tables]))
    return [
        {
            "name": look.accounts[each],
            "share": 100.0 * look.shares[each],
            "got": 100.0 * look.usage[each],
        }
        for each in used[used >= 0].tolist()
    ]


def _started(rows: GivenRows, now: float) -> list[dict[str, Any]]:
    """Jobs that have started, against their first forecasts."""
    found = []
    for at in range(len(rows)):
        moment, start = float(rows.moment[at]), float(rows.start[at])
        wide, narrow = (
            [moment + float(end[at]) for end in rows.forecasts.band(part)] for part in (0.9, 0.5)
        )
        if not wide[0] <= start <= wide[1]:
            verdict = f"no, {'earlier' if start < wide[0] else 'later'}"
        else:
            verdict = "yes, near the median" if narrow[0] <= start <= narrow[1] else "yes"
        forecast = " to ".join(both_times(wide[0], wide[1], now, "today "))
        found.append(
            {
                "job": int(rows.job[at]),
                "started": clock_text(start, now, "today "),
                "forecast": forecast,
                "verdict": verdict,
                "is_late": start > wide[1],
            }
        )
    return found


def _sentence(text: str) -> str:
    """A sentence with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
