"""The utilities that a site publishes of itself, made anew while somebody asks for them.

Whoever asks is never kept waiting by a slow batch system: a publication is made by a thread beside,
at most one at a time and at most once a minute, and the last one serves as long as it is fresh.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities
from slurm_rl_plugin.errors import SlurmRLError

logger = logging.getLogger(__name__)

#: Seconds between two publications at least.
PERIOD = 60.0


@dataclass(slots=True, kw_only=True)
class OwnUtilities:
    """Tells what the site publishes; safe for threads."""

    make: Callable[[], PublishedUtilities]  #: a publication of now; may take a while, or fail
    patience: float  #: seconds that whoever asks waits where nothing fresh is there
    busy_share: float  #: most of the time that may be spent with making them, in (0, 1]
    clock: Callable[[], float]  #: seconds since the epoch
    monotonic: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: PublishedUtilities | None = None
    _due: float = -math.inf
    _done: threading.Event = field(default_factory=threading.Event)  #: set where none is being made

    def __post_init__(self) -> None:
        self._done.set()

    def current(self) -> PublishedUtilities | None:
        """What is published now; None where nothing fresh is there in time."""
        self.renew()
        if self._fresh() is None:
            self._done.wait(self.patience)
        return self._fresh()

    def utility(self, request: JobRequest, interactive: bool) -> float | None:
        """The utility of one more such job; None where nothing fresh is published for it."""
        published = self.current()
        if published is None:
            return None
        return published.of("interactive" if interactive else "batch", request.job.account)

    def renew(self) -> None:
        """Begin a new publication where one is due; nobody waits for it here."""
        with self._lock:
            if not self._done.is_set() or self.monotonic() < self._due:
                return
            self._done.clear()
        try:
            threading.Thread(target=self._renew, daemon=True).start()
        except RuntimeError as error:  # no more threads: or nobody would ever try again
            logger.warning("utilities=none reason=%s", error)
            with self._lock:
                self._due = self.monotonic() + PERIOD
                self._done.set()

    def _fresh(self) -> PublishedUtilities | None:
        made = self._made
        return made if made is not None and made.fresh_at(self.clock()) else None

    def _renew(self) -> None:
        began = self.monotonic()
        try:
            self._made = self.make()
        except SlurmRLError as error:
            logger.warning("utilities=none reason=%s", error)
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("utilities=broken")
        finally:
            ended = self.monotonic()
            pause = (ended - began) * (1.0 / self.busy_share - 1.0)
            with self._lock:
                self._due = max(began + PERIOD, ended + pause)
                self._done.set()
