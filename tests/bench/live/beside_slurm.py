"""Measures shares and waits of new and wide jobs on a real slurmctld, alone and with the daemon.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh. Scenes:

    backlog           665 jobs of five accounts on 64 CPUs, one floods; 25 new jobs; one wide job
    adverse           the same; the largest account's jobs are long and wide, the flood is short
    newcomers-N       N pending jobs, and a new job every 2 s from the start of the daemon on

Orders: `slurm` has no daemon; `shipped` runs the daemon with its defaults, active; `reserve` keeps
4 % of the CPUs free of the backlog, whose jobs have a QOS of their own, with the default order.
Each run has a cluster of its own, without past usage. All orders of a repetition have the same
jobs. Finished runs in the same folder are not run again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from slurm_rl_plugin.measure.intervals import interval_of, of_samples
from tests.bench.live.harness import (
    PATIENCE,
    Document,
    LiveJob,
    Stopped,
    eligible_jobs,
    end_all,
    in_time,
    keep_files,
    kept_runs,
    open_partition,
    say,
)
from tests.bench.live.load_and_figures import (
    USERS,
    Moments,
    Newcomer,
    drawn_backlog,
    moments_of,
    newcomer,
    newcomer_figures,
    newcomers_of,
    service_over_share,
)
from tests.bench.shares.flooded_site import SHARES
from tests.real.conftest import running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.load import outcomes
from tests.real.private_cluster import Account, ClusterError, ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import (
    RELEASES,
    SlurmRelease,
    missing_programs,
    missing_release,
)

ORDERS = ("slurm", "shipped", "reserve")
SCENES = ("backlog", "adverse", "newcomers-1000", "newcomers-10000")
_NODES, _CPUS, _CYCLE = 8, 8, 30
#: Of the backlog: seconds that count, between newcomers, until the wide job, and for which that
#: one is observed at most.
_WINDOW, _APART, _WIDE_AT, _WIDE_PATIENCE = 200.0, 8.0, 20.0, 300.0
_SHARES = '[shares]\nfrom = "slurm"\n'
#: Keeps 3 of the 64 CPUs free of jobs with QOS batch.
_RESERVE = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 3
change_seconds = 5

[[job_class]]
class = "batch"
qos = "^batch$"

[[job_class]]
class = "interactive"
time_limit_at_most = 900
"""
_WIDE = LiveJob(
    account="elec", user=USERS["elec"][0], processors=_NODES * _CPUS, minutes=120, seconds=10
)
#: Of newcomers: seconds from the daemon's start to the end of the first phase, which holds the
#: whole first ordering, at least and at most; and of the second phase.
_FIRST, _ORDERING_PATIENCE, _AFTER = 60.0, 600.0, 90.0
#: Seconds between newcomers, and in which the last may start.
_EACH, _LAST_STARTS = 2.0, 60.0
#: Seconds until slurmctld has counted the usage of the backlog, at most.
_USAGE_PATIENCE = 240.0
#: The first ordering has ended when this part of the pending jobs carries a factor.
_ORDERED = 0.9
PLAN = ClusterPlan(
    nodes=_NODES,
    processors_per_node=_CPUS,
    accounts={name: Account(share=share, users=USERS[name]) for name, share in SHARES.items()},
    options={
        "AccountingStorageEnforce": "associations,limits",
        "PriorityMaxAge": "7-0",
        "PriorityWeightAge": "1000",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightJobSize": "1000",
        "PriorityWeightPartition": "0",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_continue",
        "MessageTimeout": "60",
    },
    partitions=("PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP",),
)
WIDE_WAIT = "wide job, wait"


@dataclass(slots=True)
class Run:
    """One scene under one order on a cluster of its own."""

    cluster: PrivateSlurm
    folder: Path  #: results and files of the daemon
    order: str  #: one of ORDERS
    #: Load averages of the machine, one for each job submitted during the scene.
    loads: list[float] = field(default_factory=list)

    def submit_all(self, jobs: Sequence[LiveJob]) -> dict[int, LiveJob]:
        """Submits jobs that cannot start yet; returns job id -> job."""
        open_partition(self.cluster, False)
        if self.order == "reserve":
            jobs = [replace(job, options=("--qos=batch",)) for job in jobs]
        with ThreadPoolExecutor(4) as pool:
            numbers = list(pool.map(lambda job: job.submit_to(self.cluster), jobs))
        self.cluster.wait_until(
            lambda: eligible_jobs(self.cluster) == len(jobs), PATIENCE, "jobs in sprio"
        )
        say(f"{self.folder.name}: {len(jobs)} jobs pending")
        return dict(zip(numbers, jobs, strict=True))

    def submit_newcomer(self, place: int) -> int:
        """Submits one, and records the load of the machine."""
        self.loads.append(os.getloadavg()[0])
        return newcomer(place).submit_to(self.cluster)

    @contextmanager
    def daemon(self) -> Iterator[RunningHook | None]:
        """Runs the daemon of the order from its first cycle on; restores all factors at the end."""
        if self.order == "slurm":
            yield None
            return
        with running_hook(
            self.cluster,
            self.folder,
            "default",
            stop_seconds=600.0,
            cycle=_CYCLE,
            influence=None,
            site=_SHARES + (_RESERVE if self.order == "reserve" else ""),
        ) as hook:
            yield hook
            say(f"{self.folder.name}: the daemon stops")
        if any(self.cluster.site_factors().values()):
            raise ClusterError(f"{self.folder}: factors are left")

    def waits(self, jobs: Sequence[int]) -> bool:
        """Whether one of these jobs is pending."""
        wanted = ",".join(map(str, jobs))
        command = ("squeue", "-h", "-t", "PD", "-j", wanted, "-o", "%A")
        return bool(self.cluster.run(*command, timeout=PATIENCE, check=False).stdout)

    def newcomers(self, jobs: Sequence[int]) -> list[Newcomer]:
        """What happened to new jobs, by the logs of Slurm's daemons and by the daemon's audit."""
        return newcomers_of(jobs, self.moments(), self.lines_of("audit.jsonl"))

    def moments(self) -> Moments:
        """By the logs of slurmctld and of every slurmd."""
        logs = self.cluster.directory.glob("log/slurm[cd]*.log")
        return moments_of(line for log in logs for line in log.read_text().splitlines())

    def lines_of(self, name: str) -> list[str]:
        """Lines of a file of the daemon."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def backlog(run: Run, jobs: Sequence[LiveJob]) -> dict[str, Any]:
    """A backlog of five accounts, newcomers of three others, and a job of the whole machine."""
    pending = run.submit_all(jobs)
    newcomers, wide = list[int](), list[int]()
    due = [_APART * place for place in range(int(_WINDOW / _APART))]
    places = sorted([*due, _WIDE_AT])

    def submit(place: int) -> None:
        if places[place] in due:
            newcomers.append(run.submit_newcomer(len(newcomers)))
        else:
            wide.append(_WIDE.submit_to(run.cluster))

    with run.daemon():
        begin = time.time()  # noqa: TID251 - logs and accounting have the same clock
        open_partition(run.cluster, True)
        in_time(run.folder.name, places, submit, Event())
        time.sleep(max(begin + _WINDOW - time.time(), 0.0))  # noqa: TID251
        _holds(lambda: not run.waits(wide), _WIDE_PATIENCE - (_WINDOW - _WIDE_AT))
        end = time.time()  # noqa: TID251
    end_all(run.cluster, [user for users in USERS.values() for user in users])
    moments = run.moments()
    started = pending.keys() & moments.launched.keys()
    # slurmctld sends slurmdbd ends in a bundle
    run.cluster.wait_until(
        lambda: started <= outcomes(run.cluster, list(pending)).keys(), PATIENCE, "all ends"
    )
    found = outcomes(run.cluster, list(pending))
    (number,) = wide
    return {
        "service": service_over_share(pending, found, begin, begin + _WINDOW),
        "newcomers": run.newcomers(newcomers),
        "wide": min(moments.launched.get(number, end), end) - moments.submitted[number],
        "wide started": moments.launched.get(number, end) < end,
        "end": end,
    }


def newcomers(run: Run, jobs: Sequence[LiveJob]) -> dict[str, Any]:
    """Newcomers of three accounts during the first ordering of a deep queue, and after it."""
    run.submit_all(jobs)
    open_partition(run.cluster, True)
    if not _holds(lambda: _usage_counts(run.cluster), _USAGE_PATIENCE):
        raise ClusterError("slurmctld does not recount usage")
    numbers, stop, begin = list[int](), Event(), time.time()  # noqa: TID251

    def submit() -> None:
        due = np.arange(0.0, _ORDERING_PATIENCE + _AFTER, _EACH).tolist()
        with suppress(Stopped):
            in_time(run.folder.name, due, lambda at: numbers.append(run.submit_newcomer(at)), stop)

    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit)
        try:
            with run.daemon() as hook:
                if hook and not _holds(lambda: _ordered(run, hook), _ORDERING_PATIENCE):
                    say(f"{run.folder.name}: no end of the first ordering")
                time.sleep(max(begin + _FIRST - time.time(), 0.0))  # noqa: TID251
                ordered = time.time()  # noqa: TID251
                say(f"{run.folder.name}: the second phase begins")
                time.sleep(_AFTER)
                stop.set()
                submitting.result()
                _holds(lambda: not run.waits(numbers), _LAST_STARTS)
                end = time.time()  # noqa: TID251
        finally:
            stop.set()
    return {"newcomers": run.newcomers(numbers), "ordered": ordered, "end": end}


def _usage_counts(cluster: PrivateSlurm) -> bool:
    """Whether slurmctld, which recounts usage once a minute, has different usage for accounts."""
    return len(set(cluster.run("sprio", "-h", "-o", "%F", timeout=PATIENCE).stdout.split())) > 1


def _ordered(run: Run, hook: RunningHook) -> bool:
    """Whether the first ordering has ended."""
    if hook.process.poll() is not None:
        raise ClusterError(hook.log)
    factors = run.cluster.site_factors().values()
    return sum(factor != 0 for factor in factors) >= _ORDERED * len(factors)


def _holds(condition: Callable[[], bool], seconds: float) -> bool:
    """Polls a condition every 2 s for some seconds, until it holds; whether it does."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(2.0)
    return held


def plan_of(order: str) -> ClusterPlan:
    """The cluster; with a reserve slurmctld enforces QOS too."""
    if order != "reserve":
        return PLAN
    enforced = {"AccountingStorageEnforce": "associations,limits,qos"}
    return replace(PLAN, options={**PLAN.options, **enforced})


def run_once(asked: tuple[str, str, int], folder: Path, release: SlurmRelease | None) -> Document:
    """Plays one scene under one order with a seed and keeps the logs in the folder."""
    scene, order, seed = asked
    for name in ("audit.jsonl", "daemon.log", "state.json"):  # of a run that was interrupted
        folder.joinpath(name).unlink(missing_ok=True)
    pending = int(scene.partition("-")[2] or 665)
    jobs = drawn_backlog(pending, seed, adverse=scene == "adverse")
    play = newcomers if scene.startswith("newcomers") else backlog
    with running_slurm(plan_of(order), release) as cluster:
        if order == "reserve":
            cluster.run("sacctmgr", "-i", "add", "qos", "batch", timeout=PATIENCE)
            every = ("account", "root", "set", "qos+=batch")
            cluster.run("sacctmgr", "-i", "modify", *every, timeout=PATIENCE)
        run = Run(cluster, folder, order)
        found = play(run, jobs)
        keep_files(cluster, folder)
    found |= {"newcomers": [asdict(each) for each in found["newcomers"]]}
    log = run.lines_of("daemon.log")
    faults = [line for line in log if " ERROR " in line or " WARNING " in line]
    return found | {"load": [float(np.mean(run.loads)), max(run.loads)], "faults": faults}


def figures_of(run: Mapping[str, Any], order: str) -> dict[str, float]:
    """Figures of a kept run."""
    jobs = [Newcomer(**each) for each in run["newcomers"]]
    daemon, end = order != "slurm", run["end"]
    found = {"load average": run["load"][0], "faults in the log": float(len(run["faults"]))}
    if "ordered" not in run:
        service = dict(run["service"])
        found["machine used"] = service.pop("used") / (_NODES * _CPUS * _WINDOW)
        found |= {f"service / share, {name}": ratio for name, ratio in service.items()}
        found |= {WIDE_WAIT: run["wide"], "wide job started": float(run["wide started"])}
        return found | newcomer_figures(jobs, end, daemon=daemon)
    for phase, first in (("first phase", True), ("second phase", False)):
        part = [each for each in jobs if (each.submitted < run["ordered"]) == first]
        each = newcomer_figures(part, end, daemon=daemon) if part else {}
        found |= {f"{phase}: {key}": value for key, value in each.items()}
    return found


def cell(values: Sequence[float]) -> str:
    """Median of the runs, with its 95 % interval for two or more runs."""
    if not values:
        return "-"
    median = float(np.median(values))
    if len(values) == 1:
        return f"{median:.3g}"
    low, high = interval_of(of_samples(np.array(values), lambda drawn: np.median(drawn, axis=-1)))
    return f"{median:.3g} [{low:.3g}, {high:.3g}]"


def table(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Lines of a Markdown table, figure by order; `runs` has the figures of each repetition."""
    names = dict.fromkeys(name for each in runs.values() for figures in each for name in figures)
    lines = [f"| | {' | '.join(runs)} |", "|---" * (len(runs) + 1) + "|"]
    for name in names:
        cells = [cell([each[name] for each in kept if name in each]) for kept in runs.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", default=",".join(SCENES), help="some of %(default)s")
    parser.add_argument("--orders", default=",".join(ORDERS[:2]), help=f"some of {ORDERS}")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--release", choices=sorted(RELEASES), help="default: the installed Slurm")
    parser.add_argument("--output", type=Path, default=Path("bench-output/live"))
    chosen = parser.parse_args(arguments)
    chosen.scenes, chosen.orders = chosen.scenes.split(","), chosen.orders.split(",")
    for word in {*chosen.scenes} - {*SCENES} | {*chosen.orders} - {*ORDERS}:
        parser.error(f"{word} is neither a scene nor an order: see --help")
    lacking = ", ".join(missing_programs())
    if chosen.release:
        lacking = missing_release(RELEASES[chosen.release])
    if os.geteuid() != 0 or lacking:
        parser.error(f"needs root and Slurm's daemons{': ' if lacking else ''}{lacking}")
    chosen.output = chosen.output.resolve() / (chosen.release or "installed")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what is missing, then prints a table for each scene."""
    chosen = options(arguments)
    release = RELEASES[chosen.release] if chosen.release else None
    asked = {
        chosen.output / scene / f"{order}-{seed}/run.json": (scene, order, seed)
        for seed in range(1, chosen.repetitions + 1)
        for scene in chosen.scenes
        for order in chosen.orders
    }
    found = kept_runs(asked, lambda _: {}, lambda run, folder, _: run_once(run, folder, release))
    for scene in chosen.scenes:
        runs = dict[str, list[dict[str, float]]]()
        for (of_scene, order, _), document in zip(asked.values(), found, strict=True):
            if of_scene == scene:
                runs.setdefault(order, []).append(figures_of(document, order))
        for each in runs.values() if "slurm" in runs else ():
            for figures, alone in zip(each, runs["slurm"], strict=True):
                if WIDE_WAIT in figures:
                    figures[f"{WIDE_WAIT}, over Slurm's"] = figures[WIDE_WAIT] / alone[WIDE_WAIT]
        print(f"\n{scene}: median of {chosen.repetitions} runs [95 % interval]; times in seconds\n")
        print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
