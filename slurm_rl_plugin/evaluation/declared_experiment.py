"""An experiment by its files alone: a head node without a simulator can report it and stop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.turns import RUNNING, ExperimentFiles, ExperimentStanding

_NONE = "no experiment is declared: begin one with `slurm-rl experiment start`."
#: What findings must have to be printed.
_PARTS = ("goals", "pairs", "blocks", "held")


@dataclass(slots=True, kw_only=True)
class DeclaredExperiment:
    """The files of an experiment, next to the state file of a configured site."""

    configuration: Configuration

    @property
    def files(self) -> ExperimentFiles:
        """Of the experiment."""
        return ExperimentFiles(state_file=Path(self.configuration.sections.hook.state_file))

    def declared(self) -> tuple[Declaration, ExperimentStanding]:
        """The declared experiment and its state."""
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
        """What has been found of an experiment so far; None where nothing has."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStatus:
    """What `status` and `report` print."""

    declared: Declaration
    standing: ExperimentStanding
    found: Mapping[str, Any] | None
    held: float  #: part of the time of blocks in which the order was in force whose turn it was
    now: float  #: seconds since the epoch

    @property
    def turn(self) -> tuple[str, float | None]:
        """The arm in force, "" for none, and the end of its block, seconds since the epoch."""
        block = self.declared.block_at(self.now)
        if block is None:
            return "", None
        return block.arm if self.standing.state == RUNNING else "", block.end

    def as_json(self) -> dict[str, Any]:
        """As JSON has it; times are seconds since the epoch."""
        declared, standing, (turn, ends) = self.declared, self.standing, self.turn
        own = ("begin", "end", "goal", "harm", "longest_wait", "misdelivered", "policy")
        return {
            "state": standing.state,
            "reason": standing.reason,
            "since": standing.at,
            "looked": standing.looked,
            **{name: getattr(declared, name) for name in (*own, "on_trial", "against")},
            "candidate": declared.candidate or None,
            "blocks": len(declared.blocks),
            "blocks_over": declared.closed(self.now),
            "turn": turn,
            "turn_ends": ends,
            "held": self.held,
            "found": self.found,
        }
