"""What the verbs of an experiment know of a configured site: its files, its model, its blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.assembly.batch_system import chosen_batch_system
from slurm_rl_plugin.cli.assembly.hook import load_policy
from slurm_rl_plugin.cli.forecasts.forecast_assembly import build_orders, build_source
from slurm_rl_plugin.cli.forecasts.site_history import OwnHistory
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.queue_file import read_queue
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.live.site_now import site_now
from slurm_rl_plugin.forecasts.live.sources import ReplaySource
from slurm_rl_plugin.hook.experiment.files import ExperimentFiles, ExperimentStanding
from slurm_rl_plugin.policies.protected_policy import waits_for_machine
from slurm_rl_plugin.what_if.switchback.live_cluster import live_cluster
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

_NO_QUEUE_FILE = (
    "[forecast] queue_file is empty: name the file in which the daemon leaves the queue, and "
    "restart the daemon; an experiment is judged by it."
)
_NONE = "no experiment is declared: begin one with `slurm-rl experiment start`."


@dataclass(slots=True, kw_only=True)
class ExperimentSite:
    """A site on which an experiment is or may be.

    Attributes:
        configuration: of the site.
    """

    configuration: Configuration
    _history: OwnHistory | None = field(default=None)

    @property
    def files(self) -> ExperimentFiles:
        """Of the experiment."""
        return ExperimentFiles(state_file=Path(self.configuration.sections.hook.state_file))

    def declared(self) -> tuple[Declaration, ExperimentStanding]:
        """The experiment that is declared, and how it stands.

        Raises:
            ConfigurationError: none is, or its files cannot be read.
        """
        files = self.files
        try:
            declared = files.declared()
            if declared is None:
                raise ConfigurationError(_NONE)
            return declared, files.stands()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{files.declaration} and {files.standing} cannot be read ({error}): do it as the "
                "daemon's user, or put the experiment away with `slurm-rl experiment stop "
                "--as-configured`."
            ) from None

    def model(self) -> tuple[str, str]:
        """Name of the policy that the daemon loads, and the checksum of its model.

        Raises:
            ConfigurationError: there is none of that name.
            PolicyError: it cannot be used.
        """
        loaded = load_policy(self.configuration.sections.policy.model)
        return loaded.policy.name, loaded.sha256

    def look(self) -> SiteAt | None:
        """The site at the daemon's last look, behind its accounting; None while that is empty.

        Raises:
            ConfigurationError: the daemon leaves no looks.
            QueueFileError: the look cannot be read.
        """
        where = self.configuration.sections.forecast.queue_file
        if not where:
            raise ConfigurationError(_NO_QUEUE_FILE)
        if self._history is None:
            kind = chosen_batch_system(self.configuration).kind
            self._history = OwnHistory(
                configuration=self.configuration, kind=kind, read_every=-math.inf
            )
        snapshot = read_queue(Path(where)).snapshot
        log = self._history.known(snapshot.capacity)
        if log is None:
            return None
        half_life = self._source().half_life
        return site_now(log, snapshot, waits_for_machine(snapshot), half_life).site

    def cluster(self, site: SiteAt) -> ReplayedCluster:
        """The cluster of a look, whose blocks can be played again.

        Raises:
            PolicyError: the model of the site cannot be read.
        """
        return live_cluster(site, self._source(), build_orders(self.configuration).policy)

    def _source(self) -> ReplaySource:
        return build_source(self.configuration, chosen_batch_system(self.configuration).kind.name)
