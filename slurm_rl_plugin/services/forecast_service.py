"""The service that forecasts when pending jobs start, from each look that the daemon leaves.

It answers before it has read accounting: first by the time limits, then by the newest finished
jobs, then by all of them, and at last with bands that are calibrated on past moments of the site.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.port import BatchSystemKind
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, SlurmRLError
from slurm_rl_plugin.forecasts.live.asked_queue import AskedQueue
from slurm_rl_plugin.forecasts.live.forecast_pages import ForecastPages
from slurm_rl_plugin.forecasts.live.forecast_queue import (
    FEWEST_SCORED,
    LATELY,
    ForecastQueue,
    notice_text,
    scores_document,
)
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.site_at import no_history
from slurm_rl_plugin.forecasts.live.sources import (
    ReplaySource,
    SiteOrder,
    learned_order,
    own_order,
    present_order,
    rule_order,
)
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.metrics.collector import forecast_metrics
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.configured_site import chosen_batch_system, written_influence
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.serving.clients import SharedToken
from slurm_rl_plugin.serving.page_server import serve_pages, serve_pages_locally
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    jobs_with_starts,
    prepare_log,
)
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from slurm_rl_plugin.whole_file import version_of, write_in_place

logger = logging.getLogger(__name__)

#: The batch system whose own backfilling is known.
_SLURM = "slurm"
#: Seconds after which past usage counts half, without a half-life of the batch system.
_HALF_LIFE = 7.0 * DAY
#: Seconds after which accounting is read again.
_READ_EVERY = HOUR
#: The same while it has no run: it may have been down, or the site may be new.
_UNTIL_KNOWN = MINUTE
#: Days of accounting that are read first, since all of them may take minutes.
_NEWEST_DAYS = 2.0
#: Seconds that a query of one month, one of the newest days and one of the machine may take.
_SECONDS, _SECONDS_OF_NEWEST, _SECONDS_OF_MACHINE = 600.0, 20.0, 20.0
#: As [policy] fallback: the daemon rolls its factors back, and the order is the site's own.
_SITE = "site"


@dataclass(slots=True, kw_only=True)
class OwnHistory:
    """The accounting of a site."""

    configuration: Configuration
    kind: BatchSystemKind
    #: Days of accounting that the first calls read, before all of it is read.
    early: list[float] = field(default_factory=list)
    #: Whether all of `history_days` has been read once.
    is_whole: bool = False
    _known: PreparedLog | None = None
    #: When all of it is read next, seconds; before the first attempt -inf.
    _due: float = -math.inf

    @property
    def was_tried(self) -> bool:
        """Whether the first attempt to read all of accounting is over."""
        return math.isfinite(self._due)

    def known(self, processors: int) -> PreparedLog:
        """The runs that are known: the next part at each of the first calls, then all of them.

        Old ones if reading anew fails; none while accounting has none.
        """
        known, begin = self._known, time.monotonic()
        if known is not None and not self.early and begin < self._due:
            return known
        is_early = bool(self.early)
        days = self.early.pop(0) if is_early else self._days
        try:
            if days:
                known = self.read(processors, days, _SECONDS_OF_NEWEST if is_early else _SECONDS)
            self.is_whole |= not is_early
        except SlurmRLError as error:
            if not is_early:
                logger.warning("history=unread reason=%s", error)
        finally:
            if not is_early:  # a query that fails slowly must not keep forecasts waiting
                again = max(_UNTIL_KNOWN, time.monotonic() - begin)
                self._due = time.monotonic() + (_READ_EVERY if self.is_whole else again)
        if known is None or not len(known.log):
            # the first answer is of a pool of processors, whose code is compiled in seconds
            known = no_history(processors, self._machine() if days else None)
        self._known = known
        return known

    @property
    def _days(self) -> float:
        return float(self.configuration.sections.forecast.history_days)

    def read(
        self, processors: int, days: float | None = None, seconds: float = _SECONDS
    ) -> PreparedLog:
        """The runs of the last days, by default of `history_days`, as accounting knows them now."""
        log = self._log(self._days if days is None else days, seconds)
        prepared = prepare_log(
            log,
            capacity=max(processors, int(log.processors.max(initial=1))),
            classifier=self.configuration.classifier,
            machine=self._machine(),
        )
        logger.info("history=read jobs=%d", len(prepared.log))
        return jobs_with_starts(prepared)

    def _log(self, days: float, seconds: float) -> JobLog:
        path = self.configuration.sections.forecast.log
        if path:
            return read_log(Path(path))[0]
        if self.kind.accounting is None:
            raise ConfigurationError(
                f"{self.kind.title} is not asked for its accounting: give [forecast] log."
            )
        accounting = self.kind.accounting(seconds)
        accounting.check()
        until = datetime.now().replace(microsecond=0)  # Slurm's commands take local time
        dump = accounting.dump(until - timedelta(days=days), until, lambda *_: None)
        return accounting.read(dump, f"of the last {days:g} days")[0]

    def _machine(self) -> Machine | None:
        """The nodes, if the batch system lists them and the list can be read."""
        if self.kind.machine is None or self.kind.lacks(os.environ):
            return None
        try:
            return self.kind.machine(_SECONDS_OF_MACHINE)
        except (BatchSystemError, ConfigurationError) as error:
            logger.warning("machine=unread: processors alone are counted reason=%s", error)
            return None


@dataclass(slots=True, kw_only=True)
class ForecastService:
    """Forecasts each look that the daemon leaves, and serves the forecasts."""

    configuration: Configuration  #: of the site
    forecaster: Forecaster  #: of its queue
    orders: dict[str, SiteOrder]  #: that its queue may have
    history: OwnHistory  #: its accounting
    queue_file: Path  #: where the daemon leaves looks
    pages: ForecastPages = field(init=False)
    _log: PreparedLog | None = None
    _version: tuple[int, int] | None = None
    #: Whether the last look is to be forecast again, because more is known.
    _again: bool = False
    #: The past moments that are being forecast; None before and after.
    _past_moments: Generator[tuple[int, int], None, int] | None = None
    _looked_back: bool = False
    _model: object = None
    _begun: float = -math.inf
    _took: float = math.nan
    _look: float = math.nan
    _complaint: str = ""
    _scores: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = self.configuration.sections.forecast
        is_token = SharedToken(Path(given.token_file)).is_in if given.token_file else None
        asked = AskedQueue(forecaster=self.forecaster, history=self._known_log)
        self.pages = ForecastPages(
            others=given.others,
            clock=time.time,  # noqa: TID251 - the composition root hands out the clock
            monotonic=time.monotonic,
            new_job=asked.new_job,
            advice=asked.advice,
            scores=lambda: self._scores,
            metrics=self._metrics,
            trusted=frozenset({0, os.geteuid()}),  # root, and whom the service runs as
            is_token=is_token or (lambda _: False),
            started=self.forecaster.kept.started_of,
            user_key=f"HTTP_{given.user_header.upper().replace('-', '_')}"
            if given.user_header
            else "",
        )

    def serve(self) -> None:
        """Begin to answer at the socket and at the port."""
        given, pages = self.configuration.sections.forecast, self.pages
        self._scores = self._scored()
        if given.socket:
            serve_pages_locally(pages, Path(given.socket), section="forecast")
            logger.info("forecast=ready socket=%s", given.socket)
        if given.address:
            tls = self.configuration.tls_of("forecast")
            port = serve_pages(pages, given.address, given.port, tls, section="forecast")
            scheme = "http" if tls is None else "https"
            logger.info("forecast=ready url=%s://%s:%d/start", scheme, given.address, port)

    def work(self) -> bool:
        """Do what is due: a forecast of the queue, or one past moment; whether more work waits."""
        every = float(self.configuration.sections.forecast.every)
        version = version_of(self.queue_file)
        is_due = version != self._version and time.monotonic() - self._begun >= every
        if version is not None and (is_due or self._again):
            self._begun, self._version = time.monotonic(), version
            self._again = self.renew() and not self.history.was_tried
        elif self._past_moments is not None:
            self._look_back()
        return (self._again and version is not None) or self._past_moments is not None

    def forecast_once(self) -> bool:
        """Forecast the last look; whether that could be done with all of accounting."""
        self.history.early.clear()
        done = self.renew()
        while self._past_moments is not None:
            self._look_back()
        return (self.renew() if self._again else done) and self.history.is_whole

    def renew(self) -> bool:
        """Forecast the last look; whether that could be done. No fault ends the service."""
        begin = time.monotonic()
        try:
            queue = self._forecast(read_queue(self.queue_file))
            self._look = queue.snapshot.now
            self._scores = self._scored()
        except SlurmRLError as error:
            self._complain(str(error))
            return False
        except Exception:  # a bug must not end the service: earlier answers stay
            logger.exception("forecast=broken")
            return False
        self._took, self._complaint = time.monotonic() - begin, ""
        self.pages.renew(queue)
        self._leave_notice(queue)
        logger.info(
            "forecast=done pending=%d told=%d scored=%d seconds=%.1f",
            len(queue.snapshot.pending),
            int((queue.place >= 0).sum()),
            queue.told.scored,
            self._took,
        )
        return True

    def _forecast(self, queue: QueueOnFile) -> ForecastQueue:
        log, forecaster = self.history.known(queue.snapshot.capacity), self.forecaster
        self._read_model()
        is_bare = log.machine is None and not len(log.log)  # nothing but the look is known
        settings = self.configuration.cycle_settings
        forecaster.source = replace(
            forecaster.source,
            order=present_order if is_bare else self.orders.get(queue.mode, own_order),
            influence=math.inf if is_bare else written_influence(self.configuration),
            site_points=settings.site_points and not is_bare,  # a static order compiles sooner
        )
        if not self.history.is_whole:
            tried = self.history.was_tried
            forecaster.unready = (
                "all of accounting could not be read yet"
                if tried
                else "accounting is still being read"
            )
        elif self._past_moments is None:
            forecaster.unready = ""
            if not self._looked_back and len(log.log):
                self._begin_to_look_back(log, queue.snapshot)
        self._log = log
        return forecaster.forecast(log, queue.snapshot)

    def _begin_to_look_back(self, log: PreparedLog, snapshot: QueueSnapshot) -> None:
        self._looked_back = True
        outcomes = self.forecaster.kept.rows(0.0, most=FEWEST_SCORED).known.sum()
        if outcomes < FEWEST_SCORED:
            self._past_moments = self.forecaster.look_back(log, snapshot)
            self.forecaster.unready = "forecasts of past moments are still being checked"

    def _look_back(self) -> None:
        """Forecast the next past moment; after the last one, the present look once more."""
        assert self._past_moments is not None
        try:
            done, of = next(self._past_moments)
        except StopIteration as end:
            logger.info("forecast=looked_back scored=%d", end.value)
        except SlurmRLError as error:
            self._complain(str(error))
        except Exception:  # a bug must not end the service: earlier answers stay
            logger.exception("forecast=broken")
        else:
            self.forecaster.unready = f"{done} of {of} past moments are checked"
            return
        self._past_moments, self._again = None, True

    def _read_model(self) -> None:
        """Read the model again where its file has been replaced; a rule has none."""
        model = self.configuration.sections.policy.model
        named = named_policy(model)
        is_rule = named is not None and named.is_rule
        version = () if is_rule else version_of(model_path(model)) or ()
        if self._model is not None and version != self._model:
            self.orders = build_orders(self.configuration)
            logger.info("forecast=another_model")
        self._model = version

    def _known_log(self) -> PreparedLog:
        assert self._log is not None  # a client asks about a forecast, which needs the log
        return self._log

    def _leave_notice(self, queue: ForecastQueue) -> None:
        path = self.configuration.sections.forecast.notice_file
        if not path:
            return
        try:
            write_in_place(Path(path), notice_text(queue).encode())
        except OSError as error:
            self._complain(
                f"notice_file {path} cannot be written ({error.strerror}): make it as root, in a "
                "folder of root's, and give it to this user"
            )

    def _complain(self, words: str) -> None:
        if words != self._complaint:
            logger.warning("forecast=failed reason=%s", words)
        self._complaint = words

    def _scored(self) -> dict[str, Any]:
        """The scores, made once for each forecast of the queue so that a request costs little."""
        now = self._look if math.isfinite(self._look) else 0.0
        return scores_document(self.forecaster.kept.rows(now - LATELY), now)

    def _metrics(self) -> tuple[bytes, str]:
        now = time.time()  # noqa: TID251 - the composition root hands out the clock
        return forecast_metrics(self._scores, now - self._look, self._took)


def forecast_service(configuration: Configuration) -> ForecastService:
    """The service of a site that names a queue file."""
    given = configuration.sections.forecast
    kind, kept = chosen_batch_system(configuration).kind, KeptForecasts(Path(given.kept_file))
    return ForecastService(
        configuration=configuration,
        forecaster=build_forecaster(configuration, kind.name, kept),
        orders=build_orders(configuration),
        history=OwnHistory(
            configuration=configuration,
            kind=kind,
            early=[0.0] if given.log else [0.0, _NEWEST_DAYS],
        ),
        queue_file=Path(given.queue_file),
    )


def build_forecaster(configuration: Configuration, kind: str, kept: KeptForecasts) -> Forecaster:
    """The forecaster of the queue."""
    given = configuration.sections.forecast
    return Forecaster(
        source=build_source(configuration, kind),
        kept=kept,
        draws=given.draws,
        seconds=float(given.every) / 2.0,
        kept_days=float(given.kept_days),
        monotonic=time.monotonic,
    )


def build_source(configuration: Configuration, kind: str) -> ReplaySource:
    """Replays of the site's queue in its own order."""
    return ReplaySource(
        order=own_order,
        backfilling="easy",
        on_nodes=AS_SLURM if kind == _SLURM else "easy",
        half_life=_HALF_LIFE,
        influence=written_influence(configuration),
        site_points=configuration.cycle_settings.site_points,
        goals=configuration.goals,
    )


def build_orders(configuration: Configuration) -> dict[str, SiteOrder]:
    """Mode of a cycle -> the order in force; of modes that are not named the site's own."""
    policy = configuration.sections.policy
    fallback = own_order if policy.fallback == _SITE else rule_order(policy.fallback)
    return {"active": order_of(policy.model), "fallback": fallback}


def order_of(model: str) -> SiteOrder:
    """How a model or a rule orders the queue."""
    named = named_policy(model)
    if named is not None and named.is_rule:
        return rule_order(named.name)
    network = import_model(model_path(model))
    if not isinstance(network, QNetwork):
        logger.warning("order=unknown model=%s: it has a memory of its own; fifo is taken", model)
        return rule_order("fifo")
    return learned_order(network)
