"""`slurm-rl run` with a policy that wants another order and another reserve in every cycle.

python -m tests.real.restless_hook run --config FILE
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.services.hook import LoadedPolicy


@dataclass(slots=True)
class Restless:
    """Draws every score and the reserve anew, so that it always writes."""

    name: str = "restless"
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        del memory
        reserve = int(self.rng.integers(1, 5))
        return Decision(scores=self.rng.random(len(snapshot.pending)), reserve=reserve)


if __name__ == "__main__":
    run.load_policy_or_fall_back = lambda _: LoadedPolicy(policy=Restless())
    sys.exit(main(sys.argv[1:]))
