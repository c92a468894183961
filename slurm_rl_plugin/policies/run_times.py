"""Quantiles of run times that a model's graph tells beside its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import PolicyError
from slurm_rl_plugin.features.history.columns import KnownPast
from slurm_rl_plugin.features.history.foretold_runs import ForetoldRuns, foretell
from slurm_rl_plugin.features.history.run_prediction import KNOWN_FACTS
from slurm_rl_plugin.features.history.run_spread import PARTS
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.units import FloatArray


def no_facts() -> dict[str, Any]:
    """What such a graph is given where only scores are asked for."""
    return {
        "facts": np.empty((KNOWN_FACTS, 0), dtype=np.float32),
        "asked": np.zeros(len(PARTS), dtype=np.float32),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQuantiles:
    """Asks a model's graph for quantiles; it is given no queue then.

    Attributes:
        session: of onnxruntime.
        schema: what the graph takes beside.
    """

    session: Any
    schema: FeatureSchema

    def __call__(self, told: KnownPast, asked: FloatArray) -> FloatArray:
        """Seconds below which parts of such runs end, shape [groups, len(PARTS)].

        Raises:
            PolicyError: onnxruntime fails, or tells no numbers.
        """
        inputs = {
            "queue": np.zeros(len(self.schema.queue), dtype=np.float32),
            "jobs": np.empty((0, len(self.schema.jobs)), dtype=np.float32),
            "facts": told.facts.astype(np.float32),
            "asked": asked.astype(np.float32),
        }
        try:
            (found,) = self.session.run(["run_times"], inputs)
        except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
            raise PolicyError(f"the model's run times failed ({error}): retrain it.") from None
        if not np.isfinite(found).all():
            raise PolicyError("the model tells run times that are no numbers: retrain it.")
        return np.asarray(found.T, dtype=np.float64)

    def of_pending(self, told: KnownPast | None, foretold: ForetoldRuns) -> FloatArray:
        """Quantiles of the pending jobs, seconds, shape [n, len(PARTS)].

        A request that past runs do not speak for is taken at its word.

        Args:
            told: what is known of them; None where nobody waits.
            foretold: says which shares are asked for.

        Raises:
            PolicyError: see `__call__`.
        """
        if told is None:
            return np.empty((0, len(PARTS)))
        found = foretell(told, foretold.asked, self)
        return np.where(np.isnan(found), told.time_limit[told.group][:, None], found)
