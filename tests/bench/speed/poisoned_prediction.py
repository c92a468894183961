"""Measures what it costs a user to lift a large job past others by dummy runs.

    python -m tests.bench.speed.poisoned_prediction

The shipped model scores. For each request it searches the cheapest dummy runs after which the job
passes an honest one: with the rule that past runs count for a large request only if they cost as
much, and without it. A price is core-seconds spent / core-seconds requested. Dummies request the
same as the job, or one processor; or they pay for the request on 64 processors, then add a few such
runs. Newcomers are honest jobs of users without past runs, for whom the site's runs count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from slurm_rl_plugin.features.history import run_history
from slurm_rl_plugin.features.history.run_history import speaks_for
from tests.attacks.poisoned_queue import (
    DAY,
    HOUR,
    Dummies,
    PoisonedQueue,
    asked_by,
    large_job,
)
from tests.unit.features.run_tables import Run

REQUESTS = ((64, DAY), (1536, HOUR), (16, 7 * DAY), (256, DAY), (64, 7 * DAY))
RUN_TIMES = (1.0, 5.0, 61.0, 901.0, 3600.0, 7000.0, 7201.0)
COUNTS = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
#: Queues of 200 honest jobs.
QUEUES = 3


def always(spent: Any, *_request: Any) -> Any:
    """The rule switched off: past runs count for every request."""
    return spent >= 0.0


def attacks(job: Run, *, like_it: bool) -> Iterator[list[Dummies]]:
    """Dummy runs that cost up to 1.5 times the request, and those that pay for it first."""
    request = (job.processors, job.time_limit) if like_it else (1, HOUR)
    bulk = math.ceil(asked_by(job) / (64 * 7000.0))
    price = Dummies(bulk, asked_by(job) / (64 * bulk), 64)
    for run_time in RUN_TIMES:
        for count in COUNTS:
            dummies = Dummies(count, run_time, *request)
            if dummies.spent <= 1.5 * asked_by(job):
                yield [dummies]
            if run_time == RUN_TIMES[0]:
                yield [price, dummies]


def cheapest(
    queues: Sequence[PoisonedQueue], job: Run, *, like_it: bool, rule: Callable[..., Any]
) -> float | None:
    """Fewest core-seconds with which the job gains a place in a queue; None if it never does."""
    best: float | None = None
    with mock.patch.object(run_history, "speaks_for", rule):
        for queue in queues:
            before = queue.ahead(job)
            for dummies in attacks(job, like_it=like_it):
                spent = sum(kind.spent for kind in dummies)
                if (best is None or spent < best) and queue.ahead(job, dummies) < before:
                    best = spent
    return best


def measured() -> tuple[list[dict[str, Any]], dict[str, float | None]]:
    """Rows of the table, and the lowest price of each column."""
    rows = []
    for newcomers in (False, True):
        drawn = [PoisonedQueue.drawn(seed, newcomers=newcomers) for seed in range(QUEUES)]
        for processors, time_limit in REQUESTS:
            job = large_job(processors, time_limit)
            for like_it in (True, False):
                row: dict[str, Any] = {"newcomers": newcomers, "processors": processors}
                row |= {"time_limit": time_limit, "dummies": "alike" if like_it else "1 processor"}
                for name, rule in (("rule", speaks_for), ("without", always)):
                    spent = cheapest(drawn, job, like_it=like_it, rule=rule)
                    row[name] = spent
                    row[f"price_{name}"] = None if spent is None else spent / asked_by(job)
                rows.append(row)
    least = {
        f"{name}{'_newcomers' if newcomers else ''}": min(
            (row[f"price_{name}"] for row in rows if row["newcomers"] == newcomers
             and row[f"price_{name}"] is not None), default=None,
        )
        for newcomers in (False, True)
        for name in ("rule", "without")
    }  # fmt: skip
    return rows, least


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    """Measures and prints."""
    rows, least = measured()
    line = "{:>9} {:>9} {:12} {:10} {:>12} {:>9} {:>12} {:>9}"
    print(line.format("PROCS", "HOURS", "DUMMIES", "PASSES", "CORE-S", "PRICE", "NO RULE", "PRICE"))
    for row in rows:
        cells = []
        for name in ("rule", "without"):
            cells += [_shown(row[name], ",.0f"), _shown(row[f"price_{name}"], ".2g")]
        passes = "newcomers" if row["newcomers"] else "others"
        hours = f"{row['time_limit'] / HOUR:g}"
        print(line.format(row["processors"], hours, row["dummies"], passes, *cells))
    print("lowest price:", {name: _shown(price, ".2g") for name, price in least.items()})


if __name__ == "__main__":
    main()
