"""The restless daemon by a clock that can be set, as `set_clock` sets that of the site around it.

libfaketime cannot be preloaded into Python: its time.sleep waits until a time of the monotonic
clock, which libfaketime 0.9.10 turns into an invalid one. So only the clock itself is replaced.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.bench.faults.set_clock import FILE


def shift_clock() -> None:
    """From now on time.time() is what the file says it is later than it is."""
    path, right = Path(os.environ[FILE]), time.time  # noqa: TID251 - the clock to be shifted
    time.time = lambda: right() + float(path.read_text())  # noqa: TID251


if __name__ == "__main__":
    shift_clock()
    from slurm_rl_plugin.cli import run
    from slurm_rl_plugin.cli.entry import main
    from slurm_rl_plugin.services.hook import LoadedPolicy
    from tests.real.restless_hook import Restless

    run.load_policy_or_fall_back = lambda _: LoadedPolicy(policy=Restless())
    sys.exit(main(sys.argv[1:]))
