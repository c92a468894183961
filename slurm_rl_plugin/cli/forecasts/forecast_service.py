"""The service that foretells when pending jobs start, from each look that the daemon leaves."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.assembly.batch_system import chosen_batch_system
from slurm_rl_plugin.cli.forecasts.forecast_assembly import (
    Orders,
    build_forecaster,
    build_orders,
    model_version,
    question_pace,
    reading_pace,
    token_of,
    trusted_users,
)
from slurm_rl_plugin.cli.forecasts.site_history import OwnHistory
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.forecasts.live.asked_queue import AskedQueue
from slurm_rl_plugin.forecasts.live.forecast_desk import ForecastDesk
from slurm_rl_plugin.forecasts.live.forecast_pages import ForecastPages
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.foretold_queue import ForetoldQueue
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.notice import notice_text
from slurm_rl_plugin.forecasts.live.scored_forecasts import LATELY, scores_document
from slurm_rl_plugin.metrics.forecast_families import forecast_metrics
from slurm_rl_plugin.serving.page_server import serve_pages, serve_pages_locally
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.whole_file import version_of, write_in_place

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ForecastService:
    """Foretells each look that the daemon leaves, and serves what it foretold.

    Attributes:
        configuration: of the site.
        forecaster: of its queue.
        orders: that its queue may have.
        history: its accounting.
        queue_file: where the daemon leaves looks.
    """

    configuration: Configuration
    forecaster: Forecaster
    orders: Orders
    history: OwnHistory
    queue_file: Path
    desk: ForecastDesk | None = None
    _log: PreparedLog | None = None
    _version: tuple[int, int] | None = None
    _model: object = None
    _begun: float = -math.inf
    _took: float = math.nan
    _look: float = math.nan
    _complaint: str = ""
    _scores: dict[str, Any] = field(default_factory=dict)

    def serve(self) -> None:
        """Begin to answer at the socket and at the port.

        Raises:
            ConfigurationError: one of them cannot be listened on.
        """
        given = self.configuration.sections.forecast
        self._scores = self._scored()
        pages = ForecastPages(
            desk=self.asked_desk(),
            scores=lambda: self._scores,
            metrics=self._metrics,
            trusted=trusted_users(),
            is_token=token_of(self.configuration),
        )
        if given.socket:
            serve_pages_locally(pages, Path(given.socket), section="forecast")
            logger.info("forecast=ready socket=%s", given.socket)
        if given.address:
            tls = self.configuration.forecast_tls
            port = serve_pages(pages, given.address, given.port, tls, section="forecast")
            scheme = "http" if tls is None else "https"
            logger.info("forecast=ready url=%s://%s:%d/start", scheme, given.address, port)

    def asked_desk(self) -> ForecastDesk:
        """Who answers; made once."""
        if self.desk is None:
            asked = AskedQueue(forecaster=self.forecaster, history=self._known_log)
            self.desk = ForecastDesk(
                others=self.configuration.sections.forecast.others,
                clock=time.time,  # noqa: TID251 - the composition root hands out the clock
                monotonic=time.monotonic,
                pace=question_pace(time.monotonic),
                reading=reading_pace(time.monotonic),
                new_job=asked.new_job,
                advice=asked.advice,
            )
        return self.desk

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
        self.asked_desk().renew(queue)
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
        source = replace(self.forecaster.source, order=self.orders.of(queue))
        self.forecaster.source = source
        if self._log is None and len(self.forecaster.kept.rows(0.0, most=1)) == 0:
            looks = 40
            with progress_bar("looking back", looks, "forecasts") as progress:
                count = self.forecaster.look_back(
                    log, queue.snapshot, lambda done, of: progress(done * looks // of, done)
                )
            logger.info("forecast=looked_back scored=%d", count)
        self._log = log
        return self.forecaster.foretell(log, queue.snapshot)

    def _read_model(self) -> None:
        """Read the model again where its file has been replaced."""
        version = model_version(self.configuration)
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


def forecast_service(configuration: Configuration) -> ForecastService:
    """The service of a site that names a queue file.

    Raises:
        ConfigurationError: no batch system is here, or no model tells of run times.
        PolicyError: the model of the site cannot be read.
    """
    given = configuration.sections.forecast
    kind, kept = chosen_batch_system(configuration).kind, KeptForecasts(Path(given.kept_file))
    return ForecastService(
        configuration=configuration,
        forecaster=build_forecaster(configuration, kind.name, kept),
        orders=build_orders(configuration),
        history=OwnHistory(configuration=configuration, kind=kind),
        queue_file=Path(given.queue_file),
    )
