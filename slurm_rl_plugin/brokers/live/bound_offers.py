"""Offers that bind for a time, by an advance reservation for the job's account.

A reservation is written to a file before it is made. It is released when no job uses it in time,
when its jobs have ended, when the service stops, and when the service finds it in the file at its
start. The batch system itself removes a reservation that is idle after its begin, and refuses to
release one that a job uses.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

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

#: Prefix of the names of our reservations; others are never changed.
PREFIX = "slurmrl-offer-"
_CANNOT_BIND = "409 Conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOffer:
    """A reservation that this service made."""

    name: str
    until: float  #: when it is released unless a job uses it, seconds since the epoch
    processors: int


@dataclass(slots=True)
class BoundOffers:
    """Makes and releases reservations; thread-safe. ConfigurationError for a damaged file."""

    #: reserve, release: those of the port `OfferingSite`.
    reserve: Callable[[str, JobRequest, float, float], None]
    release: Callable[[str], bool]
    file: Path  #: of the reservations
    clock: Callable[[], float]  #: seconds since the epoch
    seconds: float  #: for which an accepted offer waits for its job
    most: int  #: reservations at a time
    part: float  #: of the site's processors in all reservations together, in (0, 1]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _bound: dict[str, BoundOffer] = field(init=False)

    def __post_init__(self) -> None:
        # those of an earlier process are due at once
        self._bound = {
            name: BoundOffer(name=name, until=0.0, processors=n) for name, n in _read(self.file)
        }

    def accept(self, request: JobRequest, start: float, all_processors: int) -> BoundOffer:
        """Bind an offer from the offered start; RequestRefused says why that is impossible."""
        if not request.job.account or math.isnan(request.job.time_limit):
            raise RequestRefused(BAD, "an offer binds for an account and a time_limit: give both.")
        with self._lock:
            held = sum(each.processors for each in self._bound.values())
            most = self.part * all_processors
            if len(self._bound) >= self.most or held + request.processors > most:
                raise RequestRefused(_CANNOT_BIND, "the site binds no more offers now.")
            bound = BoundOffer(
                name=f"{PREFIX}{secrets.token_hex(6)}",
                until=self.clock() + self.seconds,
                processors=request.processors,
            )
            self._bound[bound.name] = bound
            try:
                self._write()  # first, so that a crash afterwards leaves the name
                self.reserve(bound.name, request, start, self.seconds)
            except OSError as error:
                del self._bound[bound.name]
                logger.warning("bound=none reason=%s", error)
                raise RequestRefused(_CANNOT_BIND, "the site cannot keep its state.") from None
            except BatchSystemUnavailable as error:  # it may have been made: release it later
                self._bound[bound.name] = replace(bound, until=0.0)
                raise _refused(error) from None
            except (JobNotAccepted, BatchSystemError) as error:
                del self._bound[bound.name]
                raise _refused(error) from None
        logger.info("bound=%s account=%s start=%.0f", bound.name, request.job.account, start)
        return bound

    def renew(self, *, everything: bool = False) -> None:
        """Release reservations that no job used in time, or all unused ones; never raises."""
        with self._lock:
            now = self.clock()
            due = [each for each in self._bound.values() if everything or each.until <= now]
            for each in due:
                try:
                    if not self.release(each.name):
                        continue
                except BatchSystemError as error:
                    logger.warning("bound=stays name=%s reason=%s", each.name, error)
                    break  # the others would fail as well: try again next time
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
