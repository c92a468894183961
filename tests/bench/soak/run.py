"""Days of jobs on a real Slurm in accelerated time, the daemon active, Prometheus scraping."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.progress import progress_bar
from tests.bench.soak.load import SoakJob
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.prometheus_server import api, prometheus_scraping

logger = logging.getLogger(__name__)

#: Seconds between two cycles at most.
CYCLE = 5.0
#: Seconds between samples.
STEP = 2.0
PROCESSORS = 32
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=PROCESSORS,
    accounts=ACCOUNTS,
    options={"MinJobAge": "60", "MessageTimeout": "60"},
    partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=1-0 State=UP",),
)
_USERS = (("alice", "physics"), ("bob", "biology"))
_LINES = "busy_share = 0.5\n"
#: Name here -> series of the daemon.
SERIES = {
    "memory": "slurm_rl_process_resident_memory_bytes",
    "files": "slurm_rl_process_open_fds",
    "pending": "sum(slurm_rl_pending_jobs)",
    "cycles": "slurm_rl_cycles_total",
    "failures": "sum(slurm_rl_cycle_failures_total)",
    "last_success": "slurm_rl_last_success_timestamp_seconds",
    "writes": "sum(slurm_rl_adjustments_total)",
}


@dataclass(slots=True, kw_only=True)
class Soak:
    """What was measured.

    Attributes:
        began: when the first round did, on Prometheus' clock.
        submitted: jobs.
        latest: seconds that the last of them was late at most.
        states: final state -> jobs, as Slurm's log of completions tells.
        seconds: of the run.
        samples: name of SERIES -> (time, value) of each sample of Prometheus.
        exit_code: of the daemon's stop.
        log: of the daemon.
    """

    began: float = 0.0
    submitted: int = 0
    latest: float = 0.0
    states: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    exit_code: int | None = None
    log: str = ""


def soak(jobs: Sequence[SoakJob], model: str, folder: Path, prometheus_port: int) -> Soak:
    """Run them; an interruption (Ctrl-C) keeps what was seen until then.

    Args:
        jobs: in order of submission.
        model: of the daemon.
        folder: of the daemon's and Prometheus' files; must be empty.
        prometheus_port: on which Prometheus listens.
    """
    found = Soak()
    with running_slurm(PLAN) as cluster:
        with (
            running_hook(cluster, folder, model, cycle=CYCLE, more=_LINES) as hook,
            prometheus_scraping(hook.port, prometheus_port, folder),
        ):
            found.began = time.time()  # noqa: TID251 - Prometheus' clock
            try:
                _submit_in_time(cluster, jobs, hook, found)
                _wait_until_done(cluster, hook, found.submitted)
            except KeyboardInterrupt:
                logger.warning("interrupted: the figures are of what was seen until now")
            ended = time.time()  # noqa: TID251
            found.seconds = ended - found.began
            found.samples = _samples(prometheus_port, found.began, ended)
            found.exit_code = hook.stop()
            found.log = hook.log
        found.states = _states(cluster)
    return found


def _submit_in_time(
    cluster: PrivateSlurm, jobs: Sequence[SoakJob], hook: RunningHook, found: Soak
) -> None:
    begin = time.monotonic()
    with progress_bar("submitted", len(jobs), "seconds late") as progress:
        for place, job in enumerate(jobs):
            due = begin + job.submit
            time.sleep(max(due - time.monotonic(), 0.0))
            found.latest = max(found.latest, time.monotonic() - due)
            user, account = _USERS[job.account]
            cluster.submit(
                user=user,
                account=account,
                minutes=5 if job.interactive else 120,  # the class rule goes by it
                seconds=job.seconds,
            )
            found.submitted += 1
            progress(place, time.monotonic() - due)
            assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"


def _wait_until_done(cluster: PrivateSlurm, hook: RunningHook, submitted: int) -> None:
    def done() -> bool:
        time.sleep(1.0)
        assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"
        return not cluster.run("squeue", "-h", "-o", "%A", timeout=60).stdout

    cluster.wait_until(done, 3600.0, f"all {submitted} jobs done")


def _samples(port: int, begin: float, end: float) -> dict[str, list[tuple[float, float]]]:
    samples = {}
    for name, expression in SERIES.items():
        data = api(port, "query_range", query=expression, start=begin, end=end, step=STEP)
        (series,) = data["result"]
        samples[name] = [(float(at), float(value)) for at, value in series["values"]]
    return samples


def _states(cluster: PrivateSlurm) -> dict[str, int]:
    """What accounting says of every job."""
    time.sleep(3.0)  # slurmdbd is told of the last ends in a bundle
    done = cluster.run(
        *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", "JobIDRaw,State"), timeout=60
    )
    states: dict[str, int] = {}
    for line in done.stdout.splitlines():
        state = line.partition("|")[2].split()[0]
        states[state] = states.get(state, 0) + 1
    return states
