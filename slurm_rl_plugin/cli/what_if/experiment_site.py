"""What the verbs of an experiment know of a configured site: its files, its model, its blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.domain.queue_file import read_queue
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.live.site_now import site_now
from slurm_rl_plugin.forecasts.live.site_orders import own_order
from slurm_rl_plugin.forecasts.live.sources import ReplaySource
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.forecast_service import build_source, order_of
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.services.site_history import OwnHistory
from slurm_rl_plugin.what_if.switchback.live_cluster import live_cluster
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

_NO_QUEUE_FILE = (
    "[forecast] queue_file is empty: name the file in which the daemon leaves the queue, and "
    "restart the daemon; an experiment is judged by it."
)


@dataclass(slots=True, kw_only=True)
class ExperimentSite(DeclaredExperiment):
    """A site on which an experiment is or may be, with what tells of its jobs."""

    _history: OwnHistory | None = field(default=None)

    def model(self, name: str = "") -> tuple[str, str]:
        """Name of the policy that the daemon loads, and the checksum of its model.

        Args:
            name: of another, as [policy] model would name it; "" for the one in service.

        Raises:
            ConfigurationError: there is none of that name.
            PolicyError: it cannot be used.
        """
        loaded = load_policy(name or self.configuration.sections.policy.model)
        return loaded.policy.name, loaded.sha256

    def look(self, since: float = -math.inf) -> SiteAt | None:
        """The site at the daemon's last look, behind its accounting of now.

        Args:
            since: seconds since the epoch; nothing is asked for an older look.

        Returns:
            None where the last look is older.

        Raises:
            AccountingLogError: accounting tells of no run yet.
            BatchSystemError: it does not answer.
            ConfigurationError: the daemon leaves no looks.
            QueueFileError: the look cannot be read.
        """
        where = self.configuration.sections.forecast.queue_file
        if not where:
            raise ConfigurationError(_NO_QUEUE_FILE)
        if self._history is None:
            kind = chosen_batch_system(self.configuration).kind
            self._history = OwnHistory(configuration=self.configuration, kind=kind)
        snapshot = read_queue(Path(where)).snapshot
        if snapshot.now < since:
            return None
        log = self._history.read(snapshot.capacity)
        half_life = self._source().half_life
        return site_now(log, snapshot, snapshot.waits_for_machine, half_life).site

    def cluster(self, site: SiteAt, candidate: str = "") -> ReplayedCluster:
        """The cluster of a look, whose blocks can be played again.

        Args:
            site: at the look.
            candidate: compared with the model in service; "" where that is compared with the
                site's own order.

        Raises:
            PolicyError: a model cannot be read.
        """
        in_service = order_of(self.configuration.sections.policy.model)
        if candidate:
            return live_cluster(site, self._source(), in_service, order_of(candidate))
        return live_cluster(site, self._source(), own_order, in_service)

    def _source(self) -> ReplaySource:
        return build_source(self.configuration, chosen_batch_system(self.configuration).kind.name)
