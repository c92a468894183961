"""`make bench-reserve`: hours of load on real Slurms: alone, with our order, with a reserve.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; ten minutes for each pair of
hours. The simulator predicts the same hours.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, drawn_places, interval_of
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
)
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.whole_file import replacing
from tests.bench.live.harness import (
    Document,
    LiveJob,
    end_all,
    kept_runs,
    say,
    submit_in_time,
    wait_until_all_started,
)
from tests.bench.live.lpc_like_hour import (
    ACCOUNTS,
    PROCESSORS,
    SHARES,
    HourJob,
    HourPlan,
    lpc_like_hour,
)
from tests.bench.report import Goal, print_goals, write_document
from tests.real.conftest import running_slurm
from tests.real.daemon_under_test import running_hook
from tests.real.load import outcomes
from tests.real.private_cluster import Account, ClusterPlan

mpl.use("Agg")

#: Hours of the published figures, fixed before they were run.
SHOWN = tuple(range(501, 513))
#: Score that separates the classes: far above any wait's score, small enough for float32.
_CLASS_STEP = 100.0
#: Processors always kept free, and the weight of each feature, log10(1 + count) / 3: 3 processors
#: on a quiet machine, 2 or 1 as interactive jobs run and batch jobs wait. Chosen on hours 1000 to
#: 1199 in the simulator, which decides at each event: 0.38 of groups of twelve hours meet all four
#: goals, about as many as with any other weights that were tried.
RESERVE_HEAD = {"always": 3.1, "running_interactive": -6.0, "pending_batch": -3.0}
#: Seconds of the hour in one second of the run: Slurm takes about a second to end a job, which
#: becomes this many seconds of the hour.
SPEED = 6.0
#: Seconds of the hour between two cycles of the daemon.
CYCLE = 15.0
#: Slurm's commands do not get faster in compressed time; with the default of 0.1 a cycle would come
#: every 44 s of the hour.
BUSY_SHARE = 0.1 * SPEED
USERS = ("alice", "bob")
#: Slurm's defaults (60 s, 30 s, 5 min, 7 days) over SPEED, in the whole units that Slurm takes.
PLAN = ClusterPlan(
    nodes=4,
    processors_per_node=8,
    accounts={
        name: Account(share=round(100 * share), users=(user,))
        for name, share, user in zip(ACCOUNTS, SHARES, USERS, strict=True)
    },
    options={
        "AccountingStorageEnforce": "associations,limits,qos",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=10,bf_interval=5,bf_continue",
        "PriorityMaxAge": "1-04:00:00",
        "PriorityDecayHalfLife": "1-04:00:00",
        "PriorityWeightPartition": None,
        "MessageTimeout": "60",
    },
    partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=60 State=UP",),
)
#: Time limits, 12 and 72 minutes of the hour; the limit gives the class.
QUICK_MINUTES, LONG_MINUTES = 2, 12
#: Largest reserve; the model gives its size.
MOST = 3
LIMIT = ClassLimit(change_interval=10.0, lift_after=2700.0, idle_after=3600.0, narrow_first=True)
#: Lines of the daemon's configuration.
_CLASS_RULE = f"""
[[job_class]]
class = "interactive"
time_limit_at_most = {60 * QUICK_MINUTES}
"""
_RESERVE = f"""
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = {MOST}
change_seconds = {LIMIT.change_interval / SPEED:g}
lift_hours = {LIMIT.lift_after / SPEED / HOUR!r}
idle_minutes = {LIMIT.idle_after / SPEED / 60.0!r}
narrow_first = {str(LIMIT.narrow_first).lower()}
"""
PLAIN, ORDER, RESERVE = SIDES = ("plain", "order", "reserve")
#: Seconds of the hour within which an interactive job should start.
SOON = 120.0

#: Seconds of the hour that Slurm adds to each start and each end, fitted to a real run of hour
#: 1000, which is not shown.
START_LATENCY, END_LATENCY = 3.0, 4.0
#: Longest run time of a batch job, seconds.
_LONGEST = 3600.0
#: The figures of `measures`: name, bound, and +1 if it must be at least the bound, else -1.
GOALS = (
    ("interactive within 120 s, reserve", 0.95, 1),
    ("interactive wait, reserve / Slurm", 0.2, -1),
    ("batch wait, reserve / order", 1.15, -1),
    ("utilization lost", 0.02, -1),
)
_WORDS = {PLAIN: "Slurm alone", ORDER: "our order", RESERVE: "our order and a reserve"}
_COLOURS = {PLAIN: "#767676", ORDER: "#0072B2", RESERVE: "#D55E00"}
#: Shorter waits are drawn here, so that an immediate start shows on a logarithmic axis.
_LEAST = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """Outcome of a job in seconds of the hour; wait and run time include Slurm's latency.

    `submit` is when it was due, `sent` when it was submitted: late on a busy machine.
    """

    submit: float
    sent: float
    wait: float
    run_time: float
    processors: int
    interactive: bool


Runs = dict[tuple[int, str], list[ReplayedJob]]
Figures = Mapping[str, float]


def hour_network() -> QNetwork:
    """Interactive jobs first, FIFO within the classes, and the reserve of RESERVE_HEAD."""
    fifo = rule_network("fifo")
    linear, weights = fifo.linear.copy(), np.zeros(len(SITE.queue))
    linear[SITE.jobs.index("interactive")] = _CLASS_STEP
    for name in ("running_interactive", "pending_batch"):
        weights[SITE.queue.index(f"log_{name}")] = RESERVE_HEAD[name]
    return replace(
        fifo,
        linear=linear,
        reserve_weights=weights * fifo.queue_scale,  # of scaled features
        reserve_bias=RESERVE_HEAD["always"] + float(weights @ fifo.queue_mean),
    )


def run_hours(seeds: Sequence[int], plan: HourPlan, folder: Path, *, at_once: int) -> Runs:
    """Real runs: those that are kept in the folder, and the missing ones on new clusters.

    Args:
        at_once: number of hours that run at the same time, each on three clusters: other load on
            the machine then disturbs all three runs of an hour.
    """

    def key(run: tuple[int, str]) -> Document:
        seed, side = run
        made = {"plan": asdict(plan), "speed": SPEED, "cycle": CYCLE, "busy_share": BUSY_SHARE}
        made |= {"reserve": _RESERVE if side == RESERVE else ""}
        made |= {"model": RESERVE_HEAD if side != PLAIN else None}
        return {"seed": seed, "side": side, "key": made}

    def play(run: tuple[int, str], _: Path, stop: Event) -> Document:
        jobs = replay(run[1], lpc_like_hour(run[0], plan), stop)
        return {"jobs": [asdict(job) for job in jobs]}

    runs: Runs = {}
    for first in range(0, len(seeds), at_once):
        asked = {
            folder / f"hour-{seed}-{side}.json": (seed, side)
            for seed in seeds[first : first + at_once]
            for side in SIDES
        }
        found = kept_runs(asked, key, play, at_once=len(asked))
        for run, document in zip(asked.values(), found, strict=True):
            runs[run] = [ReplayedJob(**job) for job in document["jobs"]]
    return runs


def replay(side: str, jobs: Sequence[HourJob], stop: Event) -> list[ReplayedJob]:
    """Runs the hour once, on a cluster of its own."""
    live = [
        LiveJob(
            user=USERS[job.account],
            seconds=job.run_time / SPEED,
            minutes=QUICK_MINUTES if job.interactive else LONG_MINUTES,
            processors=job.processors,
            submit=job.submit / SPEED,
            options=(f"--qos={'interactive' if job.interactive else 'batch'}",),
        )
        for job in jobs
    ]
    with tempfile.TemporaryDirectory() as own, running_slurm(PLAN) as cluster:
        for name in ("batch", "interactive"):
            cluster.add_qos(name, users=",".join(USERS))
        model = Path(own) / "model.onnx"
        export_network(hour_network(), model, {"algorithm": "reserve-hours"})
        more = f"busy_share = {BUSY_SHARE:g}\n{_RESERVE if side == RESERVE else ''}{_CLASS_RULE}"
        daemon = running_hook(cluster, Path(own), model, cycle=CYCLE / SPEED, more=more)
        with nullcontext() if side == PLAIN else daemon:
            submitted = submit_in_time(side, cluster, live, stop)
            say(f"{side}: all submitted")
            wait_until_all_started(cluster, stop, HOUR / SPEED)
        end_all(cluster, USERS)
        found = outcomes(cluster, submitted.numbers)
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at * SPEED,
            wait=(found[number].start - found[number].submit) * SPEED,
            run_time=(found[number].end - found[number].start) * SPEED,
            processors=job.processors,
            interactive=job.interactive,
        )
        for number, at, job in zip(submitted.numbers, submitted.at, jobs, strict=True)
    ]


def predicted(jobs: Sequence[HourJob], side: str, sent: FloatArray) -> list[ReplayedJob]:
    """The hour in the simulator, submitted as in a real run at `sent`, shape [n]."""
    interactive = np.array([job.interactive for job in jobs], dtype=np.bool_)
    limit = np.where(interactive, 720.0, 4320.0)
    workload = Workload.of(
        submit=sent,
        run_time=np.array([job.run_time for job in jobs]) + END_LATENCY,
        estimate=limit,
        time_limit=limit,
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
        account=np.array([job.account for job in jobs], dtype=np.int64),
        interactive=interactive,
        shares=np.array(SHARES),
    )
    settings = SimulationSettings(
        capacity=PROCESSORS,
        backfilling="easy",
        class_limit=LIMIT if side == RESERVE else None,
        half_life=7 * 24 * HOUR,
    )
    if side == PLAIN:
        start = simulate_order(workload, QueueOrder(rule="multifactor"), settings).start
    else:
        network = hour_network()
        if side == ORDER:
            network = replace(network, reserve_weights=None, reserve_bias=0.0)
        start = simulate_network(workload, network, settings).start
    waits = (start - sent + START_LATENCY).tolist()
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at,
            wait=wait,
            run_time=job.run_time,
            processors=job.processors,
            interactive=job.interactive,
        )
        for job, at, wait in zip(jobs, sent.tolist(), waits, strict=True)
    ]


def figures_of(jobs: Sequence[ReplayedJob]) -> dict[str, float]:
    """Figures of a real or simulated run; waits in seconds of the hour, without the initial jobs.

    `wide_wait` is the longest wait of a batch job with several processors, 0 without any;
    `utilization` that of the processors within the hour; the other waits are means.
    """
    wait, submit = (np.array([getattr(job, name) for job in jobs]) for name in ("wait", "submit"))
    interactive = np.array([job.interactive for job in jobs])
    processors = np.array([job.processors for job in jobs])
    batch = ~interactive & (submit > 0.0)
    begin = np.array([job.sent for job in jobs]) + wait
    end = begin + np.array([job.run_time for job in jobs])
    within = np.clip(np.minimum(end, HOUR) - np.maximum(begin, 0.0), 0.0, None)
    return {
        "interactive_wait": float(wait[interactive].mean()),
        "within_120s": float((wait[interactive] <= SOON).mean()),
        "batch_wait": float(wait[batch].mean()),
        "wide_wait": float(wait[batch & (processors > 1)].max(initial=0.0)),
        "utilization": float((within * processors).sum() / (PROCESSORS * HOUR)),
    }


def measures(runs: Runs, seeds: Sequence[int], hours: Any) -> FloatArray:
    """The figures of GOALS over groups of hours, shape [4, groups].

    Args:
        runs: all three of each hour.
        seeds: of the hours.
        hours: places of the hours in each group, shape [groups, n].
    """

    def means(side: str) -> dict[str, FloatArray]:
        """Figures of the jobs of each group together; utilization is the hours' mean."""
        every = [runs[seed, side] for seed in seeds]
        quick = np.array([sum(job.interactive for job in jobs) for jobs in every])
        slow = [sum(not job.interactive and job.submit > 0.0 for job in jobs) for jobs in every]
        weights = {"interactive_wait": quick, "within_120s": quick, "batch_wait": np.array(slow)}
        figures, found = [figures_of(jobs) for jobs in every], {}
        for name in (*weights, "utilization"):
            weight = weights.get(name, np.ones(len(every)))[hours]
            values = np.array([each[name] for each in figures])[hours]
            found[name] = (values * weight).sum(axis=1) / weight.sum(axis=1)
        return found

    plain, order, kept = map(means, SIDES)
    return np.array([
        kept["within_120s"],
        kept["interactive_wait"] / plain["interactive_wait"],
        kept["batch_wait"] / order["batch_wait"],
        order["utilization"] - kept["utilization"],
    ])  # fmt: skip


def draw_hours(path: Path, real: Runs, simulated: Runs) -> None:
    """Draws one panel for each class: the part of its jobs that has started after some seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for axis, interactive in zip(axes, (True, False), strict=True):
        for side in SIDES:
            for runs, style in ((real, {"lw": 2.0}), (simulated, {"lw": 0.9, "ls": "--"})):
                jobs = [job for key in runs if key[1] == side for job in runs[key]]
                waits = np.sort([
                    job.wait for job in jobs if job.interactive == interactive and job.submit > 0.0
                ])  # fmt: skip
                axis.step(
                    np.maximum(waits, _LEAST),
                    np.arange(1, len(waits) + 1) / len(waits),
                    color=_COLOURS[side],
                    where="post",
                    label=_WORDS[side] if runs is real else None,
                    **style,
                )
        axis.set_xscale("log")
        axis.set_xlabel("wait, seconds of the hour")
        axis.set_title("interactive jobs" if interactive else "batch jobs")
        axis.grid(alpha=0.3)
    axes[0].axvline(SOON, color="black", lw=0.8, ls=":")
    axes[0].annotate("120 s", (SOON, 0.02), xytext=(4, 0), textcoords="offset points")
    axes[0].set_ylabel("part of the jobs that has started")
    axes[1].plot([], [], color="black", lw=0.9, ls="--", label="predicted by the simulator")
    axes[0].set_ylim(0.0, 1.02)
    axes[1].legend(loc="lower right", fontsize="small")
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format="png")
    plt.close(figure)


def joined(runs: Runs, seeds: Sequence[int]) -> dict[str, Figures]:
    """Figures of each side over all hours; utilization is their mean."""
    sides: dict[str, Figures] = {}
    for side in SIDES:
        each = [runs[seed, side] for seed in seeds]
        mean = float(np.mean([figures_of(jobs)["utilization"] for jobs in each]))
        together = figures_of([job for jobs in each for job in jobs])
        sides[side] = {**together, "utilization": mean}
    return sides


def goals(
    runs: Runs, seeds: Sequence[int], real: Mapping[str, Figures], simulated: Mapping[str, Figures]
) -> Iterator[Goal]:
    """The goals of the reserve, with 95 % intervals over resampled hours, and of the predictions.

    There is no interval for fewer than FEWEST_BLOCKS hours.
    """
    whole = measures(runs, seeds, np.arange(len(seeds))[None, :])[:, 0]
    drawn = measures(runs, seeds, drawn_places(len(seeds), np.random.default_rng(0)))
    for (what, bound, sign), value, draws in zip(GOALS, whole.tolist(), drawn, strict=True):
        bounds = ""
        if len(seeds) >= FEWEST_BLOCKS:
            bounds = " [{:.3f}, {:.3f}]".format(*interval_of(draws))
        goal = f"{'>=' if sign > 0 else '<='} {bound:g}"
        yield Goal(what, f"{value:.3f}{bounds}", goal, sign * (value - bound) >= 0.0)
    wide, most = real[RESERVE]["wide_wait"], LIMIT.lift_after + _LONGEST
    yield Goal(
        "longest wait of a wide batch job", f"{wide:.0f} s", f"<= {most:.0f} s", wide <= most
    )
    for side in SIDES:
        for name in ("interactive_wait", "batch_wait"):
            ratio = simulated[side][name] / real[side][name]
            what = f"{name.replace('_', ' ')}, {side}: predicted / real"
            yield Goal(what, f"{ratio:.2f}", "0.85 to 1.15", abs(ratio - 1.0) <= 0.15)


def print_tables(
    runs: Runs, seeds: Sequence[int], real: Mapping[str, Figures], simulated: Mapping[str, Figures]
) -> None:
    """Prints each side, and the figures of GOALS of each hour."""
    print("RUN                  I-WAIT  I<=120S  B-WAIT  WIDEST-WAIT  UTILIZATION")
    for name in SIDES:
        for kind, each in (("", real[name]), (" predicted", simulated[name])):
            print(
                f"{name + kind:20s} {each['interactive_wait']:6.1f} {each['within_120s']:8.3f} "
                f"{each['batch_wait']:7.1f} {each['wide_wait']:12.0f} {each['utilization']:12.3f}"
            )
    print("HOUR  I<=120S  I/SLURM  B/ORDER  UTIL.LOST")
    figures = measures(runs, seeds, np.arange(len(seeds))[:, None]).T.tolist()
    for seed, row in zip(seeds, figures, strict=True):
        cells = [
            f"{value:.3f}{' ' if sign * (value - bound) >= 0.0 else '!'}"
            for value, (_, bound, sign) in zip(row, GOALS, strict=True)
        ]
        print(f"{seed:4d}  " + "  ".join(f"{cell:>7s}" for cell in cells))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints, writes and draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--hours", type=int, nargs="+", default=SHOWN, help="their seeds")
    parser.add_argument("--at-once", type=int, default=2, help="hours, with 3 clusters each")
    chosen = parser.parse_args(arguments)
    plan, seeds = HourPlan(), list(chosen.hours)
    runs = run_hours(seeds, plan, chosen.output / "reserve-hours", at_once=chosen.at_once)
    simulated: Runs = {}
    for seed, side in runs:
        sent = np.maximum.accumulate([job.sent for job in runs[seed, side]])
        simulated[seed, side] = predicted(lpc_like_hour(seed, plan), side, sent)
    both = {"real": joined(runs, seeds), "predicted": joined(simulated, seeds)}
    found = list(goals(runs, seeds, both["real"], both["predicted"]))
    report = {
        "hours": seeds,
        "plan": asdict(plan),
        "speed": SPEED,
        "reserve": {"most": MOST, **RESERVE_HEAD},
        "limit": asdict(LIMIT),
        "latency": {"start": START_LATENCY, "end": END_LATENCY},
        **both,
        "each": {
            f"{seed} {side}": {
                name: figures_of(each[seed, side])
                for name, each in (("real", runs), ("predicted", simulated))
            }
            for seed, side in runs
        },
        "goals": [each._asdict() for each in found],
    }
    write_document(chosen.output / "reserve-hour.json", report)
    print_tables(runs, seeds, both["real"], both["predicted"])
    print_goals(found)
    draw_hours(chosen.output / "reserve-hour.png", runs, simulated)
    say(f"wrote reserve-hour.json and reserve-hour.png into {chosen.output}")


if __name__ == "__main__":
    main()
