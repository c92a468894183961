"""The daemon's cycles while hostile clients attack the offer service beside it, and while not.

    python -m tests.bench.speed.attacked_cycles

Quiet and attacked windows take turns in one run, on a real Slurm with 200 waiting jobs. The
service has niceness, weight and quota of its unit, the daemon those of its own. The clients, which
in life are elsewhere, take what nobody else wants. `--asked` is how many requests a minute one
client may make; the default is the service's own.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.bench.speed.paired_ratio import paired_ratio
from tests.bench.speed.processor_share import processor_share
from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.hostile_clients import HostileLoad
from tests.real.offer_under_test import offer_service
from tests.real.private_cluster import ClusterPlan

JOBS = 200
NICE = ("nice", "-n", "10")
# CPUWeight and CPUQuota of deploy/systemd; the clients' own are as little as can be.
SHARES = (("slurm-rl-offer", 10, 0.5), ("slurm-rl", 20, None), ("hostile-clients", 1, None))


def join(tasks: Path | None, process: int) -> None:
    """Put a process with all its threads into a share of the processors."""
    for thread in Path(f"/proc/{process}/task").iterdir() if tasks else ():
        tasks.write_text(thread.name)


def totals(hook: RunningHook) -> tuple[float, float]:
    """Cycles so far, and the seconds that all of them took."""
    text = hook.metrics()
    seconds = re.findall(r"^slurm_rl_cycle_duration_seconds_sum\S* (\S+)$", text, re.MULTILINE)
    return hook.metric("slurm_rl_cycles_total") or 0.0, sum(float(each) for each in seconds)


def window(hook: RunningHook, seconds: float) -> tuple[float, float]:
    """Cycles a second, and the mean seconds that one took."""
    before, began = totals(hook), time.monotonic()
    time.sleep(seconds)
    after, took = totals(hook), time.monotonic() - began
    cycles = after[0] - before[0]
    return cycles / took, (after[1] - before[1]) / max(cycles, 1.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--asked", type=int)
    options = parser.parse_args()
    quiet, attacked, answers = [], [], Counter[int]()
    plan = ClusterPlan(accounts=ACCOUNTS, partitions=CLOSED_PARTITIONS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shares = [stack.enter_context(processor_share(*each)) for each in SHARES]
        cluster = stack.enter_context(running_slurm(plan))
        for _ in range(JOBS):
            cluster.submit(user="alice", account="physics")
        more = "soonest_cycle = 0.4\nbusy_share = 1"
        hook = stack.enter_context(running_hook(cluster, folder, "sjf", cycle=0.5, more=more))
        environment = {**os.environ, **cluster.env}
        rate = f"requests_per_minute = {options.asked}" if options.asked else ""
        service = stack.enter_context(offer_service(environment, folder / "offer", rate, NICE))
        join(shares[0], service.process.pid)
        join(shares[1], hook.process.pid)
        for _ in range(options.pairs):
            quiet.append(window(hook, options.seconds))
            with HostileLoad(service, nice=19, tasks=shares[2]) as hostile:
                attacked.append(window(hook, options.seconds))
            answers += hostile.statuses
        failures = hook.log.count("cycle=done") - hook.log.count("failure=none")
    if None in shares:
        print("no share of the processors could be given (no right to make groups of processes)")
    print(f"answers {dict(sorted(answers.items()))}, failed cycles {failures}")
    for place, what in enumerate(("cycles a second", "seconds a cycle")):
        pair = [each[place] for each in attacked], [each[place] for each in quiet]
        print(what, "attacked", [f"{each:.3f}" for each in pair[0]])
        print(what, "quiet   ", [f"{each:.3f}" for each in pair[1]])
        print(what, "attacked / quiet", paired_ratio(*pair))


if __name__ == "__main__":
    main()
