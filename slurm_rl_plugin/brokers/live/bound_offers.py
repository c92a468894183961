"""Offers that bind for a time: an advance reservation for the job's account, and its way back.

A reservation is written to a file before it is made. It is taken back when nobody has used it in
time, when its jobs have ended, when the service stops, and when the service starts and finds it in
the file. The batch system itself removes one that is idle after its begin, and refuses to take away
one that a job uses.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slurm_rl_plugin.brokers.live.job_document import BAD
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ConfigurationError,
    JobNotAccepted,
    RequestRefused,
)
from slurm_rl_plugin.whole_file import read_whole, write_whole

logger = logging.getLogger(__name__)

#: Begin of the names of our reservations; nobody else's is ever touched.
PREFIX = "slurmrl-offer-"
_CANNOT_BIND = "409 Conflict"


class ReservingSite(Protocol):
    """What binding asks of a batch system; any thread may ask.

    BatchSystemError says that there is no answer, or one that is not understood.
    """

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """Reserve processors for the account of a job from `start` on, seconds since the epoch.

        Args:
            idle: seconds after which the batch system itself ends it where no job uses it.

        Raises:
            JobNotAccepted: it cannot be made; in the batch system's words.
            BatchSystemUnavailable: nobody knows whether it was made.
        """
        ...

    def release(self, name: str) -> bool:
        """Take a reservation back; False where a job uses it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingLimits:
    """Bounds on what offers may bind."""

    seconds: float  #: for which an accepted offer waits for its job
    most: int  #: reservations at a time
    part: float  #: of the site's processors, all reservations together, in (0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOffer:
    """A reservation that this service made."""

    name: str  #: of it
    until: float  #: when it is taken back unless a job uses it, seconds since the epoch
    processors: int  #: that it holds


@dataclass(slots=True)
class BoundOffers:
    """Makes and takes back reservations; safe for threads. ConfigurationError for a bad file."""

    site: ReservingSite
    file: Path  #: in which they stand
    limits: BindingLimits
    clock: Callable[[], float]  #: seconds since the epoch
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _bound: dict[str, BoundOffer] = field(init=False)

    def __post_init__(self) -> None:
        # of an earlier process: nobody waits for these any more
        self._bound = {
            name: BoundOffer(name=name, until=0.0, processors=n) for name, n in _read(self.file)
        }

    def accept(self, request: JobRequest, start: float, all_processors: int) -> BoundOffer:
        """Bind an offer from the start that was offered; RequestRefused says why it cannot be."""
        if not request.job.account or math.isnan(request.job.time_limit):
            raise RequestRefused(BAD, "an offer binds for an account and a time_limit: give both.")
        limits = self.limits
        with self._lock:
            held = sum(each.processors for each in self._bound.values())
            most = limits.part * all_processors
            if len(self._bound) >= limits.most or held + request.processors > most:
                raise RequestRefused(_CANNOT_BIND, "the site binds no more offers now.")
            bound = BoundOffer(
                name=f"{PREFIX}{secrets.token_hex(6)}",
                until=self.clock() + limits.seconds,
                processors=request.processors,
            )
            self._bound[bound.name] = bound
            try:
                self._write()  # before it is made: a crash behind this line leaves a name
                self.site.reserve(bound.name, request, start, limits.seconds)
            except OSError as error:
                del self._bound[bound.name]
                logger.warning("bound=none reason=%s", error)
                raise RequestRefused(_CANNOT_BIND, "the site cannot keep its state.") from None
            except BatchSystemUnavailable as error:  # perhaps it was made: taken back later
                self._bound[bound.name] = BoundOffer(
                    name=bound.name, until=0.0, processors=request.processors
                )
                raise _refused(error) from None
            except (JobNotAccepted, BatchSystemError) as error:
                del self._bound[bound.name]
                raise _refused(error) from None
        logger.info("bound=%s account=%s start=%.0f", bound.name, request.job.account, start)
        return bound

    def renew(self, *, everything: bool = False) -> None:
        """Take back what nobody has used in time, or all that no job uses; never raises."""
        with self._lock:
            now = self.clock()
            due = [each for each in self._bound.values() if everything or each.until <= now]
            for each in due:
                try:
                    if not self.site.release(each.name):
                        continue
                except BatchSystemError as error:
                    logger.warning("bound=stays name=%s reason=%s", each.name, error)
                    break  # the others would fail as well: the next turn tries again
                del self._bound[each.name]
                logger.info("bound=taken_back name=%s", each.name)
            if due:
                try:
                    self._write()
                except OSError as error:
                    logger.warning("bound=unwritten reason=%s", error)

    def _write(self) -> None:
        rows = [[each.name, each.processors] for each in self._bound.values()]
        write_whole(self.file, json.dumps({"bound": rows}))


def _refused(error: Exception) -> RequestRefused:
    logger.warning("bound=none reason=%s", error)
    return RequestRefused(_CANNOT_BIND, f"the offer cannot be bound: {error}.")


def _read(file: Path) -> list[tuple[str, int]]:
    try:
        rows = json.loads(read_whole(file))["bound"]
        found = [(str(name), int(processors)) for name, processors in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        found = [("", 0)]
    if not all(name.startswith(PREFIX) for name, _ in found):
        raise ConfigurationError(
            f"{file} cannot be read: look at `scontrol show reservation`, delete those that begin "
            f"with {PREFIX}, and remove the file."
        )
    return found
