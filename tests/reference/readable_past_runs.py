"""Predictions from past runs, in plain Python: at each moment from the whole past.

It shares no line with the compiled kernel: rows have names here, not places, and keep what each
run said instead of sums.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MINUTES = (1, 2, 5, 10, 15, 30)
HOURS = (1, 2, 4, 8, 12, 18, 24, 48)
BOUNDS = (10.0, 30.0, *(60.0 * each for each in MINUTES), *(3600.0 * each for each in HOURS))
ENDED = len(BOUNDS)
#: How much a run weighs when the next one has said something of the same bound.
SITE_KEEPS, USER_KEEPS, LIMIT_KEEPS, TEMPLATE_KEEPS = 0.999, 0.9, 0.93, 0.6
#: A run of two hours is a long one; a request of 1536 hours of one processor is a large one.
LONG, LARGE = 7200.0, 1536.0 * 3600.0
#: Parts of the runs that are to end below the quantiles.
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)


class Request(NamedTuple):
    """What a job asks for, and whose it is; a template belongs to one user."""

    user: int
    template: int
    time_limit: float
    processors: int

    @property
    def kind(self) -> tuple[int, int]:
        """How often a minute doubles within the time limit, and one within the processors."""
        return _doublings(self.time_limit / 60.0, 15), _doublings(self.processors, 13)

    @property
    def within(self) -> tuple[int, int]:
        """Whose it is, and how often a minute doubles within the time limit."""
        return self.user, self.kind[0]

    @property
    def own(self) -> tuple[int, int, int]:
        """Whose it is, the processors, and how often a minute grows by 2^(1/4) to the limit."""
        return self.user, self.processors, step_of(self.time_limit)


def step_of(time_limit: float) -> int:
    """The nearest quarter of a doubling of a minute."""
    return math.floor(4.0 * math.log2(max(time_limit / 60.0, 1.0)) + 0.5)


def _doublings(value: float, most: int) -> int:
    return sum(value >= 2.0**each for each in range(1, most + 1))


@dataclass
class Row:
    """What runs have said of each bound in turn, after what was known before them.

    `before`: (ended before the bound, came that far); `said`: how much each run counts, and whether
    it ended before the bound.
    """

    keeps: float
    before: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)] * ENDED)
    said: list[list[tuple[float, bool]]] = field(default_factory=lambda: [[] for _ in BOUNDS])
    spent: float = 0.0
    last: float = 0.0
    previous: float = 0.0
    inverse: float = 0.0

    def finished(self, run_time: float) -> None:
        """A user's run is the last one now."""
        inverse = 1.0 / max(run_time, 10.0)
        self.inverse = 0.9 * self.inverse + 0.1 * inverse if self.inverse else inverse
        self.previous = self.last or run_time
        self.last = run_time

    def paid(self, run_time: float, processors: int) -> None:
        """A user's run has cost this much; after a long one all begins at nothing."""
        self.spent = self.spent + run_time * processors if run_time < LONG else 0.0

    def count(self, kind: int) -> tuple[float, float]:
        """Runs that ended before a bound, and that came so far; older ones weigh less.

        A run that counts half makes those before it lose half of what they would lose.
        """
        kept, ends, all_of_them = 1.0, 0.0, 0.0
        for weight, ended in reversed(self.said[kind]):
            ends += kept * weight * ended
            all_of_them += kept * weight
            kept *= 1.0 - weight * (1.0 - self.keeps)
        ended_before, came_before = self.before[kind]
        return ends + kept * ended_before, all_of_them + kept * came_before

    def counts(self) -> list[tuple[float, float]]:
        """`count` of each bound."""
        return [self.count(kind) for kind in range(ENDED)]

    def numbers(self) -> list[float]:
        """The row as the package keeps it."""
        ended, came = zip(*self.counts(), strict=True)
        return [*ended, *came, self.spent, self.last, self.previous, self.inverse]


@dataclass
class Rows:
    """Rows of kinds of requests at the site, of users, their limits and templates that were met."""

    site: dict[tuple[int, int], Row] = field(default_factory=dict)
    users: dict[int, Row] = field(default_factory=dict)
    limits: dict[tuple[int, int], Row] = field(default_factory=dict)
    templates: dict[tuple[int, int, int], Row] = field(default_factory=dict)

    def tell(self, request: Request, kind: int, run_time: float) -> None:
        """One event of a run, of four levels.

        Among all who ask for the same it counts the less the more its user has said of the bound,
        among its user's runs of its class of limits the less, the more its template has.
        """
        site = self.site.setdefault(request.kind, Row(SITE_KEEPS))
        user = self.users.setdefault(request.user, Row(USER_KEEPS))
        limits = self.limits.setdefault(request.within, Row(LIMIT_KEEPS))
        template = self.templates.setdefault(request.own, Row(TEMPLATE_KEEPS))
        said = _said_by_end(run_time, request.time_limit) if kind == ENDED else (kind, False)
        if said is not None:
            of, ended = said
            voice = (1.0 + user.count(of)[1]) ** -2.0
            among = 1.0 / (1.0 + template.count(of)[1])
            told = ((site, voice), (user, 1.0), (limits, among), (template, 1.0))
            for row, weight in told:
                row.said[of].append((weight, ended))
        if kind == ENDED:
            user.finished(run_time)
            user.paid(run_time, request.processors)
        elif BOUNDS[kind] == LONG:
            user.paid(LONG, request.processors)

    def speak_for(self, request: Request) -> bool:
        """A small request always; a large one where its user has paid for one as large."""
        asks = request.processors * request.time_limit
        if asks < LARGE:
            return True
        return request.user in self.users and self.users[request.user].spent >= asks

    def hazards(self, request: Request) -> list[float]:
        """Parts of the runs that end before each bound, of those that came so far.

        Each level is drawn towards the one above by 5, 10, 6 and 3 runs. Where past runs do not
        speak for a request fewer end before a bound than of its class, or as many.
        """
        of_class = _drawn([0.12] * ENDED, self.site.get(request.kind), 5.0)
        of_user = _drawn(of_class, self.users.get(request.user), 10.0)
        of_limits = _drawn(of_user, self.limits.get(request.within), 6.0)
        own = _drawn(of_limits, self.templates.get(request.own), 3.0)
        return own if self.speak_for(request) else list(map(min, own, of_class))


def _drawn(hazards: Sequence[float], row: Row | None, runs: float) -> list[float]:
    """The hazards of a row, drawn towards these by some runs; these without a row."""
    if row is None:
        return list(hazards)
    pairs = zip(row.counts(), hazards, strict=True)
    return [(ended + runs * above) / (came + runs) for (ended, came), above in pairs]


def _said_by_end(run_time: float, time_limit: float) -> tuple[int, bool] | None:
    """The bound on which the end of a run has news, and whether the run ended before it.

    One that its own time limit ended might have gone on, as far as the limit lets any run.
    """
    longer = [kind for kind, bound in enumerate(BOUNDS) if bound > run_time]
    came_to = max((bound for bound in BOUNDS if bound <= run_time), default=0.0)
    if longer and run_time < 0.99 * time_limit:
        return longer[0], True
    if longer and came_to < 0.99 * time_limit:
        return longer[0], False
    return None


def events(
    start: Sequence[float], run_time: Sequence[float], until: float
) -> list[tuple[float, int, int]]:
    """(time, kind, job) of all events of runs up to a time, in order; NaN for no start."""
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
    rows = Rows() if known is None else copy.deepcopy(known)
    for _, kind, job in events(start, run_time, until):
        rows.tell(requests[job], kind, run_time[job])
    return rows


def lengths(hazards: Sequence[float], limit: float) -> Iterator[tuple[float, float, float]]:
    """Parts of the runs with the mean of their run time, and of 1 / max(run time, 10 s).

    Between two bounds runs are spread evenly in the logarithm of their length; those that come to
    the time limit run as long as asked.
    """
    left = 1.0 - hazards[0]
    yield hazards[0], min(6.0, limit), 0.1
    for low, bound, hazard in zip(BOUNDS[:-1], BOUNDS[1:], hazards[1:], strict=True):
        if low >= 0.99 * limit:
            break
        high = min(bound, limit)
        span = math.log(high) - math.log(low)
        yield left * hazard, (high - low) / span, (1.0 / low - 1.0 / high) / span
        left -= left * hazard
    yield left, limit, 1.0 / max(limit, 10.0)


def run_time_at(hazards: Sequence[float], share: float) -> float:
    """Seconds below which a share of the runs ends, 1 s at least, ten days at most."""
    below, low = 0.0, 1.0
    for bound, hazard in zip((*BOUNDS, 864_000.0), (*hazards, 1.0), strict=True):
        ends = (1.0 - below) * hazard
        if share <= below + ends:
            return low * (bound / low) ** ((share - below) / ends)
        below, low = below + ends, bound
    raise AssertionError("a share above 1")


def quantiles_at_starts(
    requests: Sequence[Request], start: Sequence[float], run_time: Sequence[float]
) -> list[list[float]]:
    """PARTS of the runs of each job end below these, as known when it starts; its limit at most.

    What is asked for moves by what an end has shown; of one instant starts come last.
    """
    rows, asked = Rows(), list(PARTS)
    told: dict[int, list[float]] = {}
    starts = [(begin, ENDED + 1, job) for job, begin in enumerate(start)]
    for _, kind, job in sorted(events(start, run_time, math.inf) + starts):
        if kind > ENDED:
            hazards, limit = rows.hazards(requests[job]), requests[job].time_limit
            told[job] = [min(run_time_at(hazards, share), limit) for share in asked]
            continue
        if kind == ENDED:
            asked = _learned(asked, told[job], run_time[job])
        rows.tell(requests[job], kind, run_time[job])
    return [told[job] for job in range(len(start))]


def _learned(asked: Sequence[float], told: Sequence[float], run_time: float) -> list[float]:
    learned: list[float] = []
    for part, share, seconds in zip(PARTS, asked, told, strict=True):
        moved = share + 0.005 * (part - (run_time <= seconds))
        learned.append(max(min(max(moved, 0.001), 0.999), *learned[-1:], 0.0))
    return learned


def history_columns(
    requests: Sequence[Request],
    run_time: Sequence[float],
    moment: object,
    known: Rows | None = None,
) -> list[list[float]]:
    """The three history features of each pending job of a moment."""
    rows = rows_at(requests, moment.start, run_time, moment.now, known)
    pending = _counts(requests, moment.pending)
    running = _counts(requests, moment.running)
    told: dict[int, list[float]] = {}
    for job in moment.pending:
        request = requests[job]
        if request.template not in told:
            alike = min(pending[request.template], 8)
            alone = rows.speak_for(request) and request.template not in running
            columns = [*predicted_features(rows, request), math.log(alike) if alone else 0.0]
            told[request.template] = columns
    return [told[requests[job].template] for job in moment.pending]


def predicted_features(rows: Rows, request: Request) -> list[float]:
    """The length that counts, a minute at least, and how far it may be off; logarithms.

    Where past runs do not speak for a request it counts as an eighth of its mean run time at least.
    """
    parts = list(lengths(rows.hazards(request), request.time_limit))
    mean = sum(part * length for part, length, _ in parts)
    inverse = sum(part * each for part, _, each in parts)
    if not rows.speak_for(request):
        inverse = min(inverse, 64.0 / mean)
    return [math.log(max(math.sqrt(mean / inverse), 60.0)), math.log(math.sqrt(mean * inverse))]


def _counts(requests: Sequence[Request], jobs: Sequence[int]) -> Mapping[int, int]:
    templates = [requests[job].template for job in jobs]
    return {each: templates.count(each) for each in templates}
