"""`slurm-rl run` with a policy that wants another order and another reserve in every cycle.

    python -m tests.real.restless_hook run --config FILE

If the variable SLEEP names a file, each decision first sleeps for the seconds in it. If
the variable CLOCK names a file, time.time() is ahead by the seconds in it: libfaketime, which reads
the same file, breaks Python's sleep.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.services.hook import LoadedPolicy

SLEEP, CLOCK = "RESTLESS_HOOK_SLEEPS", "FAKETIME_TIMESTAMP_FILE"


@dataclass(slots=True)
class Restless:
    """Draws every score and the reserve in each decision, so that it always writes."""

    name: str = "restless"
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        del memory
        sleeps = Path(os.environ.get(SLEEP, "/nonexistent"))
        if sleeps.exists():
            time.sleep(float(sleeps.read_text()))
        reserve = int(self.rng.integers(1, 5))
        return Decision(scores=self.rng.random(len(snapshot.pending)), reserve=reserve)


if __name__ == "__main__":
    if CLOCK in os.environ:
        clock, right = Path(os.environ[CLOCK]), time.time  # noqa: TID251 - the clock to be set
        time.time = lambda: right() + float(clock.read_text())  # noqa: TID251
    run.load_policy_or_fall_back = lambda _: LoadedPolicy(policy=Restless())
    sys.exit(main(sys.argv[1:]))
