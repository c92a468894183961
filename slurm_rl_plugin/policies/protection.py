"""Protected jobs: those that later ones have overtaken for long keep the head of the queue.

An order by score alone lets some jobs wait for ever; a clock that strikes after so many hours gives
the gain back as soon as everybody waits long. What a late job owes to the order is something else:
it was *overtaken*. A job is overtaken by a second when jobs that came later used all processors for
a second while it waited, by half a second when they used half of them. On nodes with memory and
GPUs it is the resource of which the job asks for the largest part that counts: who waits for GPUs
loses nothing by jobs that run without any. Where everybody waits in the order of arrival nobody is
overtaken, however long the queue; a wide job under a stream of narrow ones is overtaken all the
time. So what the order may cost any one job is bounded, in the site's own hours, and the learned
order is free below that bound.

Plain numpy style: the simulator compiles these very lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError, ModelSchemaMismatch
from slurm_rl_plugin.units import DAY, MINUTE

#: Before a policy's name: its order with jobs protected; `protected:JOBS,AFTER:NAME` says how.
PROTECTED = "protected:"
#: Entry of a model's metadata that holds its protection.
PROTECTION_ENTRY = "protection"
#: Seconds in which the longest wait of a site counts half.
HALF_LIFE = 30.0 * DAY
#: A job is protected once overtaken by so many seconds at least, and at most: where jobs wait for
#: weeks, a day would protect nearly all of them, and so none.
SOONEST, LATEST = 1.0 * MINUTE, 3.0 * DAY
#: A job bears being overtaken by this part of the run time that it asks for, and of the longest
#: wait at most: who asks for three days loses little by some hours, and much of what short jobs
#: gain comes from just those; but where nobody waits long, a long job does not either.
OWN_PART = 0.25
#: Seconds that a protected job counts as overtaken by at least: more than it is ever protected
#: after, so that it stays so until it starts, however the longest wait grows.
FOR_GOOD = 2.0 * LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How many jobs an order protects, and when.

    Attributes:
        jobs: at most so many at a time, in each partition; the oldest, half of them of one user
            at most. 0 protects none.
        after: a job is protected when it has been overtaken by so much of the longest wait that the
            site has known lately, and by `OWN_PART` of its time limit or of that wait, whichever is
            less, and is until it starts.

    Raises:
        ConfigurationError: a negative number, or one that is not finite.
    """

    jobs: int = 4
    after: float = 0.08

    def __post_init__(self) -> None:
        if self.jobs < 0 or not 0.0 <= self.after < math.inf:
            raise ConfigurationError(
                f"protection of {self.jobs} jobs after {self.after:g} of the longest wait: neither "
                "may be negative, and both must be finite."
            )

    @property
    def of_one_user(self) -> int:
        """How many of them may be one user's: who asks for what never comes free holds no more."""
        return max(self.jobs // 2, 1)

    @property
    def words(self) -> str:
        """As `protected:` takes it."""
        return f"{self.jobs},{self.after:g}"

    def to_json(self) -> str:
        """As a model's metadata hold it."""
        return json.dumps(asdict(self))


def protection_in(path: Path, metadata: Mapping[str, str]) -> Protection | None:
    """The protection that a model was made with; None for one that protects nobody.

    Raises:
        ModelSchemaMismatch: it is none that this release knows.
    """
    text = metadata.get(PROTECTION_ENTRY)
    if text is None:
        return None
    try:
        return Protection(**json.loads(text))
    except (ValueError, TypeError, OverflowError, RecursionError, ConfigurationError):
        raise ModelSchemaMismatch(
            f"model {path} protects jobs as this release does not ({text[:80]}): retrain it."
        ) from None


def protection_named(name: str) -> tuple[Protection | None, str]:
    """What `protected:` before a policy's name asks for, and the name itself.

    None where nothing stands before it: then a model's own protection holds.

    Raises:
        ConfigurationError: `protected:` is followed by neither JOBS,AFTER nor a name.
    """
    if not name.startswith(PROTECTED):
        return None, name
    first, colon, rest = name.removeprefix(PROTECTED).partition(":")
    jobs, comma, after = first.partition(",")
    if not comma:
        return Protection(), name.removeprefix(PROTECTED)
    try:
        if not colon:
            raise ValueError
        return Protection(jobs=int(jobs), after=float(after)), rest
    except ValueError:
        raise ConfigurationError(
            f"policy {name!r}: give {PROTECTED}NAME, or {PROTECTED}JOBS,AFTER:NAME with a whole "
            f"number and a part of the longest wait, as {PROTECTED}4,0.08:sjf."
        ) from None


def overtaken_by(arrived: Any, others_arrived: Any, used: Any, capacity: Any) -> Any:
    """Seconds by which each waiting job was overtaken, float64[n].

    Args:
        arrived: when each waiting job came, ascending, float64[n].
        others_arrived: when each job that used a resource came, float64[m].
        used: seconds of each of them times how much of it they had, float64[m].
        capacity: how much of it the machine has.
    """
    place = np.searchsorted(arrived, others_arrived)  # so many waiting jobs came before it
    charged = np.bincount(place, used, len(arrived) + 1)
    return np.cumsum(charged[::-1])[::-1][1:] / capacity


def longest_wait(before: Any, since: Any, wait: Any) -> Any:
    """The longest wait that a site has known lately, seconds.

    Args:
        before: what it was.
        since: seconds since then.
        wait: of the job that waits longest now, seconds.
    """
    return max(before * 0.5 ** (since / HALF_LIFE), wait)


def protected_after(longest: Any, after: Any) -> Any:
    """Seconds by which a job that asks for very little is overtaken when it becomes protected.

    Args:
        longest: the site's longest wait lately, seconds.
        after: see `Protection`.
    """
    return min(max(after * longest, SOONEST), LATEST)


def borne_by(requested: Any, after: Any, longest: Any) -> Any:
    """Seconds by which a job is overtaken when it becomes protected.

    Args:
        requested: run time that it asks for, seconds; NaN for no limit, which is the longest.
        after: seconds for one that asks for very little (`protected_after`).
        longest: the site's longest wait lately, seconds.
    """
    own = np.fmin(OWN_PART * requested, min(OWN_PART * longest, LATEST))
    return np.maximum(after, own)
