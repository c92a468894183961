"""The scheduling rules of definitions.md in plain Python: slow, short, and written to be read.

It shares no line with the compiled kernel. Every event looks at every job again; nothing is
remembered but the starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Job(NamedTuple):
    """One job; times in seconds."""

    submit: float
    run_time: float
    estimate: float
    processors: int
    account: int
    interactive: bool


class Limit(NamedTuple):
    """The batch class has a limit, as the hook's rail of the reserve sets it; times in seconds.

    `widest`: processors that it always leaves to batch work; `interval`: between two changes;
    `lift_after`: a batch job of several processors that waits so long lifts it and goes first;
    `idle_after`: without an interactive arrival for so long there is none;
    `narrow_first`: below it batch jobs wider than `widest` go last; `most`: processors at most.
    """

    widest: int
    interval: float
    lift_after: float
    idle_after: float
    narrow_first: bool = False
    most: float = math.inf


class Plan(NamedTuple):
    """What the plan of EASY assumes: `seconds` of each job, or the mean of the last two runs that
    its user (`users`) had before it came. `consistent`: of running jobs, too, corrected once they
    outlive it.

    Else heads have a promise, beyond which they are pushed by `slack` of the longest wait at most,
    which halves in 30 days; by a minute at least, by a day at most.
    """

    seconds: Sequence[float]
    consistent: bool = False
    slack: float = 0.05
    correction: str = "doubled"
    users: Sequence[int] = ()


def _estimates(first: float, request: float, correction: str) -> Iterator[float]:
    """What a running job is estimated to run, one after the other, each outlived in its turn."""
    yield first
    if correction == "stepped":
        yield from (first + 60 * m for m in (1, 5, 15, 30))
        yield from (first + 3600 * h for h in (1, 2, 5, 10, 20, 50, 100))
    while correction == "doubled":
        first *= 2
        yield first
    yield request


class _Planned:
    """When running jobs end, and which candidates are planned to end before the head starts."""

    def __init__(self, rule: Plan | None) -> None:
        self.rule, self.longest, self.at = rule, 0.0, -math.inf
        self.promise: dict[int, float] = {}
        self.start: list[float] = []

    def seconds(self, jobs, j):
        if not self.rule.users:
            return self.rule.seconds[j]
        own = [k for k, user in enumerate(self.rule.users) if user == self.rule.users[j]]
        ended = [
            (self.start[k] + jobs[k].run_time, k) for k in own if self.start[k] == self.start[k]
        ]
        runs = [jobs[k].run_time for end, k in sorted(ended) if end < jobs[j].submit][-2:]
        return min(sum(runs) // 2, jobs[j].estimate) if len(runs) == 2 else jobs[j].estimate

    def _first(self, jobs, j, enough):
        """The first estimate that is enough, or the most that there is."""
        request, correction = jobs[j].estimate, self.rule.correction
        most = math.inf if correction == "doubled" else request
        first = max(self.seconds(jobs, j), 1)
        tried = _estimates(first, request, correction)
        return min(next(each for each in tried if enough(each) or each >= most), most)

    def expected_to_end(self, jobs, j):
        """Whether a job that ends now was planned to."""
        run_time = jobs[j].run_time
        if self.rule is None or not self.rule.consistent:
            return jobs[j].estimate <= run_time
        return self._first(jobs, j, lambda each: each >= run_time) <= run_time

    def decide(self, jobs, at):
        self.start = at.start
        oldest = at.now - min(jobs[j].submit for j in at.pending)
        faded = self.longest * 0.5 ** ((at.now - self.at) / (30 * 86400))
        self.longest, self.at = max(faded, oldest), at.now

    def end_of(self, jobs, j, start, now):
        length = jobs[j].estimate
        if self.rule is not None and self.rule.consistent:
            length = self._first(jobs, j, lambda each: each > now - start)
        return max(start + length, now)

    def promise_to(self, head, shadow):
        self.promise.setdefault(head, shadow)

    def in_time(self, jobs, j, head, shadow, now):
        limit = now + jobs[j].estimate
        if self.rule is None:
            return limit <= shadow
        planned = now + min(self.seconds(jobs, j), jobs[j].estimate) <= shadow
        if self.rule.consistent:
            return planned
        slack = min(max(self.rule.slack * self.longest, 60), 86400)
        return limit <= shadow or (planned and limit <= self.promise.get(head, now) + slack)


class _Reserve:
    """What of the machine is kept from batch work, and how: free, or by a limit on the class."""

    def __init__(self, wanted, rule: Limit | None) -> None:
        self.wanted, self.rule = wanted, rule
        self.now, self.since, self.again = 0, -math.inf, math.inf
        self.starving: list[int] = []

    def decide(self, jobs, at, capacity):
        wanted = self.wanted if isinstance(self.wanted, int) else self.wanted(jobs, at)
        if self.rule is None:
            self.now = wanted
            return
        wanted = min(wanted, self.rule.most)
        came = max((j.submit for j in jobs if j.interactive and j.submit <= at.now), default=None)
        nobody = math.inf if came is None else came + self.rule.idle_after
        somebody = came is not None and at.now < nobody
        wide = [j for j in at.pending if jobs[j].processors > 1 and not jobs[j].interactive]
        starve = {j: jobs[j].submit + self.rule.lift_after for j in wide}
        starving = [j for j in wide if starve[j] <= at.now]
        limit = capacity
        if wanted > 0 and somebody and not starving:
            used = sum(jobs[j].processors for j in at.running if jobs[j].interactive)
            limit = max(capacity - used - wanted, self.rule.widest)
        self.starving = starving if wanted > 0 and somebody else []
        change = capacity - limit != self.now
        if change and (self.starving or at.now >= self.since + self.rule.interval):
            self.now, self.since = capacity - limit, at.now
            change = False
        moments = [min(starve.values(), default=math.inf), nobody]
        self.again = min((t for t in moments if t > at.now), default=math.inf)
        if change:
            self.again = min(self.again, self.since + self.rule.interval)

    def first(self, jobs, j):
        """The sort key of the rail: starving jobs in turn, or interactive ones below a limit."""
        if self.rule is None:
            return 0
        if self.starving:
            return 1 + len(jobs) - j if j in self.starving else 0
        if self.now == 0:
            return 0
        if jobs[j].interactive:
            return 2
        return int(self.rule.narrow_first and jobs[j].processors <= self.rule.widest)

    def blocks(self, jobs, job, running, capacity, free):
        """Whether a batch job that fits may not start."""
        if job.interactive:
            return False
        if self.rule is None:
            return free < min(job.processors + self.now, capacity)
        batch = sum(jobs[j].processors for j in running if not jobs[j].interactive)
        # what already runs over the limit leaves no room; the others fit it
        return batch + job.processors > capacity - self.now

    def planned(self, job, capacity):
        """Free processors that a plan for later asks for."""
        if job.interactive or self.rule is not None:
            return job.processors
        return min(job.processors + self.now, capacity)


class Moment(NamedTuple):
    """What a scorer may look at: the time, which jobs wait and run, and all starts so far."""

    now: float
    pending: list[int]
    running: list[int]
    start: list[float]


#: Gives one comparable score for each job of `moment.pending`; higher starts earlier.
Scorer = Callable[[Sequence[Job], Moment], Sequence]
#: Processors to keep free of batch work, decided at each decision.
Holder = Callable[[Sequence[Job], Moment], int]


def _utility_loss(job: Job, now: float) -> float:
    """Utility lost each second past the deadline, eq. 2 and 3 (2008) differentiated by hand."""
    deadline = job.estimate + 60.0
    turnaround = max(now - job.submit + job.estimate, deadline)
    if job.interactive:
        return 0.5 / 60.0 * math.exp(-0.5 * (turnaround - deadline) / 60.0)
    return 0.3 / deadline * (turnaround / deadline) ** -1.3


#: The simple orders, from their definitions.
SCORERS: dict[str, Callable[[Job, float], object]] = {
    "fifo": lambda job, now: -job.submit,
    "sjf": lambda job, now: -job.estimate,
    "saf": lambda job, now: -job.estimate * job.processors,
    "least-share": lambda job, now: -job.processors,
    "edf": lambda job, now: -(job.submit + job.estimate + 60.0),
    "interactive-first": lambda job, now: (job.interactive, -job.submit),
    "min-run-wait": lambda job, now: -(job.estimate + (now - job.submit)),
    "f1": lambda job, now: (
        -(math.log10(job.estimate) * job.processors + 870 * math.log10(max(job.submit, 1)))
    ),
    "wfp3": lambda job, now: ((now - job.submit) / job.estimate) ** 3 * job.processors,
    "unicep": lambda job, now: (
        (now - job.submit + 1e-15) / (math.log2(job.processors + 1e-15) * job.estimate)
    ),
    "utility-greedy": lambda job, now: (
        _utility_loss(job, now) / max(job.estimate, 1) / job.processors
    ),
    "expansion-factor": lambda job, now: (now - job.submit + job.estimate) / job.estimate,
}


def rule(name: str) -> Scorer:
    """The scorer of a simple order."""
    return lambda jobs, at: [SCORERS[name](jobs[j], at.now) for j in at.pending]


def simulate(
    jobs: Sequence[Job],
    capacity: int,
    scorer: Scorer,
    *,
    easy: bool = False,
    reserve: int | Holder = 0,
    cycle: float = 0.0,
    limit: Limit | None = None,
    plan: Plan | None = None,
    singly: bool = False,
) -> list[float]:
    """When each job starts; with a plan events are decided on singly."""
    if singly:
        return _simulate_singly(jobs, capacity, scorer, plan)
    planned, start = _Planned(None), [math.nan] * len(jobs)
    now = -math.inf
    kept = _Reserve(reserve, limit)
    while any(math.isnan(each) for each in start):
        ends = [s + job.run_time for s, job in zip(start, jobs, strict=True) if s == s]
        events = [t for t in ends + [job.submit for job in jobs] if t > now]
        events += [kept.again] if math.isfinite(kept.again) else []
        kept.again = math.inf
        now = min(events) if cycle == 0 else math.ceil(min(events) / cycle) * cycle
        _decide(jobs, capacity, scorer, start, now, easy, kept, planned)
    return start


def _simulate_singly(jobs, capacity, scorer, plan):
    """EASY; of what happens at one instant arrivals come first, then ends, who started first.

    After each there is a decision, to which all that was planned to end by then has ended.
    """
    planned, start = _Planned(plan), [math.nan] * len(jobs)
    planned.start = start
    arrived, gone = 0, set()
    while any(math.isnan(each) for each in start):
        running = [j for j in range(len(jobs)) if start[j] == start[j] and j not in gone]
        ends = {j: start[j] + jobs[j].run_time for j in running}
        next_arrival = jobs[arrived].submit if arrived < len(jobs) else math.inf
        now = min([next_arrival, *ends.values()])
        ending = [j for j in running if ends[j] == now]
        if next_arrival == now:
            arrived += 1
        else:
            gone.add(min(ending, key=lambda j: (start[j], j)))
        gone.update(j for j in ending if planned.expected_to_end(jobs, j))
        waiting = [j for j in range(arrived) if math.isnan(start[j])]
        running = [j for j in running if j not in gone]
        kept = _Reserve(0, None)
        _decide(jobs, capacity, scorer, start, now, True, kept, planned, waiting, running)
    return start


def _decide(jobs, capacity, scorer, start, now, easy, kept, planned, waiting=None, running=None):
    if waiting is None:
        waiting = [j for j in range(len(jobs)) if jobs[j].submit <= now and math.isnan(start[j])]
        running = [j for j in range(len(jobs)) if start[j] <= now < start[j] + jobs[j].run_time]
    free = capacity - sum(jobs[j].processors for j in running)
    if not waiting or free == 0:
        return
    if kept.rule and not any(jobs[j].processors <= free for j in waiting):
        return
    at = Moment(now, waiting, running, start)
    scores = scorer(jobs, at)
    kept.decide(jobs, at, capacity)
    planned.decide(jobs, at)
    score_of = dict(zip(waiting, scores, strict=True))
    head = None
    batch_until = math.inf  # batch jobs must end before the first kept-back one is to fit
    # best score first; equal scores by submission (sorted is stable, also when reversed)
    for j in sorted(waiting, key=lambda j: (kept.first(jobs, j), score_of[j]), reverse=True):
        job = jobs[j]
        if free == 0:
            return
        needed = kept.planned(job, capacity)
        if head is None and job.processors > free:
            if not easy:
                return
            head = j
            shadow, spare = _shadow(jobs, running, start, now, free, needed, planned)
            if any(jobs[k].processors <= free for k in at.pending if math.isnan(start[k])):
                planned.promise_to(head, shadow)
            continue
        if not job.interactive and now + job.estimate > batch_until:
            continue
        if head is not None:
            ends_in_time = planned.in_time(jobs, j, head, shadow, now)
            if job.processors > free or not (ends_in_time or job.processors <= spare):
                continue
        if kept.blocks(jobs, job, running, capacity, free):
            if batch_until == math.inf and not kept.rule:
                batch_until = -math.inf
                if easy:
                    batch_until, _ = _shadow(
                        jobs, running, start, now, free, needed, _Planned(None)
                    )
            continue
        if head is not None and not ends_in_time:
            spare -= job.processors
        start[j] = now
        running.append(j)
        free -= job.processors


def _shadow(jobs, running, start, now, free, needed, planned):
    """Earliest estimated end at which `needed` processors are free, and how many more then are."""
    expected = {j: planned.end_of(jobs, j, start[j], now) for j in running}
    for time in sorted(set(expected.values())):
        free_then = free + sum(jobs[j].processors for j in running if expected[j] <= time)
        if free_then >= needed:
            return time, free_then - needed
    raise AssertionError("a job wider than the machine")


def served(jobs: Sequence[Job], start: Sequence[float], until: float, accounts: int) -> list[float]:
    """Processor-seconds that each account consumed strictly before a time."""
    total = [0.0] * accounts
    for job, begin in zip(jobs, start, strict=True):
        if begin < until:  # false for a job that did not start
            total[job.account] += job.processors * min(until - begin, job.run_time)
    return total


def fairness_of_each(
    jobs: Sequence[Job], start: Sequence[float], shares: Sequence[float]
) -> list[float]:
    """F_j = 1 - max_k (w_k - S_kj)+ / max_k w_k at each job's start; 0 before any service."""
    result = []
    for begin in start:
        service = served(jobs, start, begin, len(shares))
        if sum(service) == 0:
            result.append(0.0)
            continue
        deficit = max(w - s / sum(service) for w, s in zip(shares, service, strict=True))
        result.append(1.0 - max(deficit, 0.0) / max(shares))
    return result
