"""Reservations, which backfill forgets where a job that is planned by TimeMin ends after it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_time
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.units import DAY, HOUR

SHOW_RESERVATIONS = ("scontrol", "-o", "show", "reservation")
#: What it says where there are none.
NONE = "No reservations in the system"
#: Flag -> seconds after which one comes again at the earliest; clocks may be put forward meanwhile.
PERIODS = {
    "HOURLY": HOUR,
    **dict.fromkeys(("DAILY", "WEEKDAY", "WEEKEND"), DAY - HOUR),
    "WEEKLY": 7 * DAY - HOUR,
}
#: Jobs that may use such a one are put into it unasked.
MAGNETIC = "MAGNETIC"
_WORD = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes or licences kept for some users.

    Attributes:
        start, end: seconds since the epoch.
        flags: as Slurm shows them.
    """

    name: str
    start: float
    end: float
    flags: frozenset[str]

    def next_start(self, now: float) -> float:
        """When it begins, or begins again, after `now`; infinite where it does not."""
        if self.start > now:
            return self.start
        periods = [PERIODS[flag] for flag in self.flags & PERIODS.keys()]
        if not periods:
            return math.inf
        return self.start + (math.floor((now - self.start) / min(periods)) + 1) * min(periods)

    def reached_by(self, limit: float, now: float, own: Sequence[str]) -> bool:
        """Whether a job that starts now or later could come where it must not be.

        Others must be over before it begins. Its own job must be over before it ends, since jobs
        are killed there; so must one that a magnetic reservation may draw in.

        Args:
            limit: seconds that the job may run, with a margin.
            now: seconds since the epoch.
            own: names of the reservations that the job asked for.
        """
        if self.name in own:
            return max(now, self.start) + limit > self.end
        draws_in = MAGNETIC in self.flags and self.start <= now
        return now + limit > (self.end if draws_in else self.next_start(now))


def parse_reservations(text: str) -> list[Reservation]:
    """Read the answer of SHOW_RESERVATIONS.

    Raises:
        BatchSystemError: a line has another form.
    """
    return [_parse(line) for line in text.splitlines() if line.strip() and NONE not in line]


def _parse(line: str) -> Reservation:
    words: dict[str, str] = {}
    for key, value in _WORD.findall(line):
        words.setdefault(key, value)
    try:
        return Reservation(
            name=words["ReservationName"],
            start=parse_time(words["StartTime"], -math.inf),
            end=parse_time(words["EndTime"], math.inf),
            flags=frozenset(words["Flags"].split(",")),
        )
    except (KeyError, ValueError) as error:
        raise not_understood(" ".join(SHOW_RESERVATIONS), line) from error
