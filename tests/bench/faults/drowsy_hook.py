"""The restless daemon, whose policy sleeps in each decision while a file says for how long.

FILE=... python -m tests.bench.faults.drowsy_hook run --config FILE
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.services.hook import LoadedPolicy
from tests.real.restless_hook import Restless

#: Variable that names the file.
SLEEP = "DROWSY_HOOK_SLEEPS"


class Drowsy(Restless):
    """Restless, and slow at times."""

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        path = Path(os.environ[SLEEP])
        if path.exists():
            time.sleep(float(path.read_text()))
        return super(Drowsy, self).decide(snapshot, memory)  # noqa: UP008 - slots make a new class


if __name__ == "__main__":
    run.load_policy_or_fall_back = lambda _: LoadedPolicy(policy=Drowsy())
    sys.exit(main(sys.argv[1:]))
