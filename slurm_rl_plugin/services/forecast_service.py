"""The service that foretells when pending jobs start, from each look that the daemon leaves.

What accounting tells of the site is read at first, and again each hour.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.kind import BatchSystemKind
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, SlurmRLError
from slurm_rl_plugin.forecasts.live.asked_queue import AskedQueue
from slurm_rl_plugin.forecasts.live.forecast_pages import (
    ForecastPages,
    question_pace,
    reading_pace,
)
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.foretold_queue import (
    LATELY,
    ForetoldQueue,
    notice_text,
    scores_document,
)
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.sources import (
    ReplaySource,
    SiteOrder,
    learned_order,
    own_order,
    rule_order,
)
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.metrics.families import forecast_metrics
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.configured_site import chosen_batch_system, written_influence
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.serving.clients import SharedToken
from slurm_rl_plugin.serving.page_server import serve_pages, serve_pages_locally
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
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
#: Seconds after which past usage counts half, where no batch system tells.
_HALF_LIFE = 7.0 * DAY
#: Seconds after which accounting is asked again.
_READ_EVERY = HOUR
#: The same while it has told of no run: it may have been down, or the site be new.
_UNTIL_KNOWN = MINUTE
#: Seconds that a query of one month, and one of the machine, may take.
_SECONDS, _SECONDS_OF_MACHINE = 600.0, 60.0
#: As [policy] fallback: our factors are taken back, so that the site's own order is in force.
_SITE = "site"


@dataclass(slots=True, kw_only=True)
class OwnHistory:
    """The accounting of a site."""

    configuration: Configuration
    kind: BatchSystemKind
    _known: PreparedLog | None = None
    _read: float = float("-inf")

    def known(self, processors: int) -> PreparedLog | None:
        """The last weeks' runs, old ones if reading anew fails; None while accounting has none."""
        every = _UNTIL_KNOWN if self._known is None else _READ_EVERY
        if time.monotonic() - self._read >= every:
            self._read = time.monotonic()
            try:
                self._known = self.read(processors)
            except SlurmRLError as error:
                logger.warning("history=unread reason=%s", error)
        return self._known

    def read(self, processors: int) -> PreparedLog:
        """The last weeks' runs as accounting tells them now."""
        machine = self._machine()
        log = self._log()
        prepared = prepare_log(
            log,
            capacity=max(processors, int(log.processors.max(initial=1))),
            classifier=self.configuration.classifier,
            machine=machine,
        )
        logger.info("history=read jobs=%d", len(prepared.log))
        return jobs_with_starts(prepared)

    def _log(self) -> JobLog:
        path = self.configuration.sections.forecast.log
        if path:
            return read_log(Path(path))[0]
        if self.kind.accounting is None:
            raise ConfigurationError(
                f"{self.kind.title} is not asked for its accounting: give [forecast] log."
            )
        accounting = self.kind.accounting(_SECONDS)
        accounting.check()
        until = datetime.now().replace(microsecond=0)  # Slurm's commands take local time
        days = float(self.configuration.sections.forecast.history_days)
        dump = accounting.dump(until - timedelta(days=days), until, lambda *_: None)
        return accounting.read(dump, f"of the last {days:g} days")[0]

    def _machine(self) -> Machine | None:
        """The nodes, where the batch system tells them, in words that are understood."""
        if self.kind.machine is None or not self.kind.presence(os.environ).is_here:
            return None
        try:
            return self.kind.machine(_SECONDS_OF_MACHINE)
        except (BatchSystemError, ConfigurationError) as error:
            logger.warning("machine=unread: processors alone are counted reason=%s", error)
            return None


@dataclass(slots=True, kw_only=True)
class ForecastService:
    """Foretells each look that the daemon leaves, and serves what it foretold."""

    configuration: Configuration  #: of the site
    forecaster: Forecaster  #: of its queue
    orders: dict[str, SiteOrder]  #: that its queue may have
    history: OwnHistory  #: its accounting
    queue_file: Path  #: where the daemon leaves looks
    #: Shows how far a longer work has come: its name, its steps, their unit.
    progress_bar: Callable[[str, int, str], AbstractContextManager[Callable[[int, float], None]]]
    pages: ForecastPages = field(init=False)
    _log: PreparedLog | None = None
    _version: tuple[int, int] | None = None
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
            pace=question_pace(time.monotonic),
            reading=reading_pace(time.monotonic),
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

    def renew_when_due(self) -> None:
        """Foretell the queue where the daemon has left a new look and the time has come."""
        every = float(self.configuration.sections.forecast.every)
        version = version_of(self.queue_file)
        if version == self._version or time.monotonic() - self._begun < every:
            return
        self._begun, self._version = time.monotonic(), version
        self.renew()

    def renew(self) -> bool:
        """Foretell the last look; whether that could be done. No fault ends the service."""
        begin = time.monotonic()
        try:
            queue = self._foretold(read_queue(self.queue_file))
            self._look = queue.snapshot.now
            self._scores = self._scored()
        except SlurmRLError as error:
            self._complain(str(error))
            return False
        except Exception:  # a bug of ours must not end the answers of before
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

    def _foretold(self, queue: QueueOnFile) -> ForetoldQueue:
        log = self.history.known(queue.snapshot.capacity)
        if log is None:
            raise ConfigurationError("accounting tells of no run yet, so nothing can be foretold.")
        self._read_model()
        source = replace(self.forecaster.source, order=self.orders.get(queue.mode, own_order))
        self.forecaster.source = source
        if self._log is None and len(self.forecaster.kept.rows(0.0, most=1)) == 0:
            looks = 40
            with self.progress_bar("looking back", looks, "forecasts") as progress:
                count = self.forecaster.look_back(
                    log, queue.snapshot, lambda done, of: progress(done * looks // of, done)
                )
            logger.info("forecast=looked_back scored=%d", count)
        self._log = log
        return self.forecaster.foretell(log, queue.snapshot)

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
        assert self._log is not None  # who asks has been told a forecast, which needs the log
        return self._log

    def _leave_notice(self, queue: ForetoldQueue) -> None:
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
        """Made once for each forecast of the queue: whoever asks for scores must not cost much."""
        now = self._look if math.isfinite(self._look) else 0.0
        return scores_document(self.forecaster.kept.rows(now - LATELY), now)

    def _metrics(self) -> tuple[bytes, str]:
        now = time.time()  # noqa: TID251 - the composition root hands out the clock
        return forecast_metrics(self._scores, now - self._look, self._took)


def forecast_service(
    configuration: Configuration,
    progress_bar: Callable[[str, int, str], AbstractContextManager[Callable[[int, float], None]]],
) -> ForecastService:
    """The service of a site that names a queue file."""
    given = configuration.sections.forecast
    kind, kept = chosen_batch_system(configuration).kind, KeptForecasts(Path(given.kept_file))
    return ForecastService(
        configuration=configuration,
        forecaster=build_forecaster(configuration, kind.name, kept),
        orders=build_orders(configuration),
        history=OwnHistory(configuration=configuration, kind=kind),
        queue_file=Path(given.queue_file),
        progress_bar=progress_bar,
    )


def build_forecaster(configuration: Configuration, kind: str, kept: KeptForecasts) -> Forecaster:
    """What foretells the queue."""
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
        return rule_order(named.rule)
    network = import_model(model_path(model))
    if not isinstance(network, QNetwork):
        logger.warning("order=unknown model=%s: it has a memory of its own; fifo is taken", model)
        return rule_order("fifo")
    return learned_order(network)
