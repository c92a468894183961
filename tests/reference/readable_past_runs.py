"""What past runs tell, in plain Python: at every moment all that happened so far is told anew.

It shares no line with the compiled kernel: rows have names here, not places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

BOUNDS = (60.0, 900.0, 7200.0)
ENDED = len(BOUNDS)
#: (fast, slow) weight of the newest run.
SITE_WEIGHTS, OWN_WEIGHTS = (0.02, 0.002), (0.5, 0.1)
#: A run of two hours is a long one; a request of 1536 hours of one processor is a large one.
LONG, LARGE = 7200.0, 1536.0 * 3600.0


class Request(NamedTuple):
    """What a job asks for, and whose it is; a template belongs to one user."""

    user: int
    template: int
    time_limit: float
    processors: int


@dataclass(frozen=True)
class Row:
    """Means over past runs, each as (fast, slow)."""

    shorter: tuple[tuple[float, float], ...] = ((0.1, 0.1), (0.4, 0.4), (0.7, 0.7))
    log_run: tuple[float, float] = (3.0, 3.0)
    last: float = 3600.0
    previous: float = 3600.0
    inverse: float = 0.01
    spent: float = 0.0

    def outlived(self, kind: int, weights: tuple[float, float]) -> Row:
        """A running job turns out to be no shorter than BOUNDS[kind]."""
        shorter = list(self.shorter)
        shorter[kind] = _mean(shorter[kind], 0.0, weights)
        return replace(self, shorter=tuple(shorter))

    def ended(self, run_time: float, weights: tuple[float, float]) -> Row:
        """A job has ended: only now is it known to be shorter than what it did not outlive."""
        shorter = tuple(
            _mean(mean, 1.0, weights) if run_time < bound else mean
            for mean, bound in zip(self.shorter, BOUNDS, strict=True)
        )
        return replace(
            self,
            shorter=shorter,
            log_run=_mean(self.log_run, math.log10(1.0 + run_time), weights),
            last=run_time,
            previous=self.last,
            inverse=self.inverse + weights[1] * (1.0 / max(run_time, 10.0) - self.inverse),
        )

    def paid(self, run_time: float, processors: int) -> Row:
        """A user's run has cost this much; after a long one all begins at nothing."""
        return replace(self, spent=self.spent + run_time * processors if run_time < LONG else 0.0)

    def facts(self) -> list[float]:
        """What the row tells a prediction."""
        shares = [share for pair in self.shorter for share in pair]
        odds = [math.log((share + 0.01) / (1.01 - share)) / 5.0 for share in shares]
        return [*odds, *(each / 6.0 for each in self.log_run), math.log10(self.inverse) / 6.0]

    def numbers(self) -> list[float]:
        """The row as the package keeps it."""
        shares = [share for pair in self.shorter for share in pair]
        return [*shares, *self.log_run, self.last, self.previous, self.inverse, self.spent]


def _mean(mean: tuple[float, float], newest: float, weights: tuple[float, float]) -> tuple:
    return tuple(
        each + weight * (newest - each) for each, weight in zip(mean, weights, strict=True)
    )


@dataclass
class Rows:
    """Rows of the site and of the users and templates that were met."""

    site: Row = field(default_factory=Row)
    users: dict[int, Row] = field(default_factory=dict)
    templates: dict[int, Row] = field(default_factory=dict)

    def tell(self, request: Request, kind: int, run_time: float) -> None:
        """One event of a run; who is new begins with what is known of the level above."""
        self.users.setdefault(request.user, self.site)
        self.templates.setdefault(request.template, self.users[request.user])

        def told(row: Row, weights: tuple[float, float]) -> Row:
            return row.ended(run_time, weights) if kind == ENDED else row.outlived(kind, weights)

        self.site = told(self.site, SITE_WEIGHTS)
        self.users[request.user] = told(self.users[request.user], OWN_WEIGHTS)
        self.templates[request.template] = told(self.templates[request.template], OWN_WEIGHTS)
        if kind == ENDED or BOUNDS[kind] == LONG:
            length = run_time if kind == ENDED else LONG
            self.users[request.user] = self.users[request.user].paid(length, request.processors)

    def speak_for(self, request: Request) -> bool:
        """A small request always; a large one where its user has paid for one as large."""
        asks = request.processors * request.time_limit
        if asks < LARGE:
            return True
        return request.user in self.users and self.users[request.user].spent >= asks

    def facts(self, request: Request) -> list[float]:
        """What a prediction of a job is made of; who is not known is spoken for from above."""
        asked = [math.log10(1 + request.time_limit) / 6, math.log10(request.processors) / 4]
        user = self.users.get(request.user, self.site)
        template = self.templates.get(request.template, user)
        known = [float(request.user in self.users), float(request.template in self.templates)]
        return [1.0, *asked, *user.facts(), *template.facts(), *known]


def events(
    start: Sequence[float], run_time: Sequence[float], until: float
) -> list[tuple[float, int, int]]:
    """(time, kind, job) of all that runs told up to a time, in order; NaN for no start."""
    told = []
    for job, (begin, length) in enumerate(zip(start, run_time, strict=True)):
        for kind, bound in enumerate(BOUNDS):
            if length >= bound and begin + bound <= until:
                told.append((begin + bound, kind, job))
        if begin + length <= until:
            told.append((begin + length, ENDED, job))
    return sorted(told)


def rows_at(
    requests: Sequence[Request],
    start: Sequence[float],
    run_time: Sequence[float],
    until: float,
    known: Rows | None = None,
) -> Rows:
    """What is known at a time, of runs known before and of these."""
    rows = Rows() if known is None else Rows(known.site, {**known.users}, {**known.templates})
    for _, kind, job in events(start, run_time, until):
        rows.tell(requests[job], kind, run_time[job])
    return rows


def predicted_features(
    facts: Sequence[float], weights: Sequence[Sequence[float]], time_limit: float, speak: bool
) -> list[float]:
    """The six history features of a prediction; without one a request is taken at its word."""
    *logits, log_run = [
        sum(weight * fact for weight, fact in zip(each, facts, strict=True)) for each in weights
    ]
    if not speak:
        logits, log_run = [-6.9, -6.9, -6.9], math.log10(1.0 + time_limit)
    shares = [1.0 / (1.0 + math.exp(-logit)) for logit in logits]
    minute, quarter, hours = (max(shares[: each + 1]) for each in range(3))
    parts = [minute, quarter - minute, hours - quarter, 1.0 - hours]
    longest = 7200.0 + max(time_limit - 7200.0, 0.0) / 2.0
    lengths, inverses = (20.0, 350.0, 3200.0, longest), (20.0, 300.0, 2500.0, longest)
    expected = sum(part * length for part, length in zip(parts, lengths, strict=True))
    rate = sum(part / length for part, length in zip(parts, inverses, strict=True))
    return [
        log_run / 6.0,
        minute,
        quarter,
        math.log10(rate) / 4.0 + 1.25,
        math.log10(1.0 + expected) / 6.0,
        facts[-1] if speak else 0.0,
    ]


def history_columns(
    requests: Sequence[Request],
    run_time: Sequence[float],
    moment: object,
    weights: Sequence[Sequence[float]],
    known: Rows | None = None,
) -> list[list[float]]:
    """The eight history features of each pending job of a moment."""
    rows = rows_at(requests, moment.start, run_time, moment.now, known)
    pending = _counts(requests, moment.pending)
    running = _counts(requests, moment.running)
    columns = []
    for job in moment.pending:
        request = requests[job]
        speaks = rows.speak_for(request)
        many = math.log10(pending[request.template]) / 3.0 if speaks else 0.0
        alone = 0.0 if running.get(request.template) else many
        facts = rows.facts(request)
        speak = rows.speak_for(request)
        told = predicted_features(facts, weights, request.time_limit, speak)
        columns.append([*told, many, alone])
    return columns


def _counts(requests: Sequence[Request], jobs: Sequence[int]) -> Mapping[int, int]:
    templates = [requests[job].template for job in jobs]
    return {each: templates.count(each) for each in templates}
