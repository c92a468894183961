"""An experiment by its files alone: what a head node without a simulator can tell and stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.files import ExperimentFiles, ExperimentStanding

_NONE = "no experiment is declared: begin one with `slurm-rl experiment start`."
#: What findings must have to be printed.
_PARTS = ("goals", "pairs", "blocks", "held")


@dataclass(slots=True, kw_only=True)
class DeclaredExperiment:
    """What lies beside the state file of a configured site.

    Attributes:
        configuration: of the site.
    """

    configuration: Configuration

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

    def found(self, declared: Declaration) -> dict[str, Any] | None:
        """What has been found of an experiment so far; None where nothing has.

        Raises:
            ConfigurationError: the file cannot be read, or is of another experiment.
        """
        path, document = self.files.findings, self.files.found()
        if document is None:
            if path.exists():
                raise ConfigurationError(f"{path} cannot be read: remove it.")
            return None
        if document.get("experiment") != declared.name or any(
            part not in document for part in _PARTS
        ):
            raise ConfigurationError(f"{path} holds no findings of this experiment: remove it.")
        return document
