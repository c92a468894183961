"""The 2008 paper, "Utility-based Reinforcement Learning for Reactive Grids", run again.

SARSA trains the network on generated logs of seeds 1000 and above. It is measured on seeds 0 to
N - 1, with FIFO and rules that need no learning on the same logs. The log of the LAL site is not
public; segments of LPC-EGEE replace it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    candidate_of_model,
    evaluate,
    medians_of,
)
from slurm_rl_plugin.learning.sarsa import PAPER, SarsaSettings
from slurm_rl_plugin.learning.training_load import log_window
from slurm_rl_plugin.papers.reactive_grids_2008 import load, on_line, rows
from slurm_rl_plugin.papers.study.figures import (
    comparison,
    cumulative_waits,
    draw_cumulative,
    fairness_gaps,
    finished,
    panels,
)
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Effort, Outcome
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    LOGS,
    NATIVE,
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    SJF,
    PairedTrial,
    archived_log,
    fairness_over_time,
    prepared_segments,
    read_lpc,
    rules,
    run_trial,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, INTERACTIVE_WAIT_GOAL
from slurm_rl_plugin.utility.time_utility import relative_overhead

#: The crowded segment.
LPC_D = "LPC-D_190257-199831"
#: Seed and load of the generated log.
_SEED, _LOAD = 9, 0.9
#: Jobs of SDSC-SP2 after the first 60 %, on which models may have learned.
_FIRST, _JOBS = 36_000, 10_000
_RULES = ("fifo", "multifactor", "sjf")


def crowded_segment(traces: Path, effort: Effort) -> PreparedLog:
    """LPC-D on the 81 processors of 2011, or its first jobs."""
    where = "where it is jobs 190257 to 199831 of LPC-EGEE"
    log = read_log(archived_log(traces, LPC_D, where))[0]
    jobs = effort.jobs_of(len(log))
    return prepare_log(log.select(np.arange(jobs)), capacity=PROCESSORS_OF_2011)


def _loads_of(traces: Path | None, effort: Effort) -> Iterator[tuple[str, PreparedLog, str]]:
    """Name, log and backfilling of each load; without traces the generated one alone."""
    log = egee_log(np.random.default_rng(_SEED), load=_LOAD, jobs=effort.jobs_of(9500))
    yield f"egee:load={_LOAD:g},seed={_SEED}", prepare_log(log, capacity=PROCESSORS_OF_2011), "none"
    if traces is not None:
        yield "LPC-D", crowded_segment(traces, effort), "none"
        machine = prepare_log(read_log(archived_log(traces, LOGS["SDSC-SP2"]))[0])
        yield "SDSC-SP2", log_window(machine, _FIRST, effort.jobs_of(_JOBS)), "easy"


def shipped_figures(asked: Asked) -> dict[str, dict[str, dict[str, float]]]:
    """Load -> rule or shipped model -> J, and part of the interactive jobs within 120 s."""
    candidates = [Candidate(name=rule) for rule in _RULES]
    candidates += [candidate_of_model(name, asked.shipped(name)) for name in SHIPPED_MODELS]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, prepared, backfilling in _loads_of(asked.traces, asked.effort):
        settings = SimulationSettings(capacity=prepared.capacity, backfilling=backfilling)
        found[name] = {}
        for candidate in candidates:
            entry = evaluate(candidate, prepared, RequestedLimit(), settings)
            within = entry["classes"]["interactive"]["within_120s"]
            found[name][candidate.name] = {"J": entry["objective"], "within_120s": within}
    return found


#: Fraction of interactive jobs of the figures that the paper shows for one only.
SHOWN = 0.2
#: Networks as printed: files and settings.
_FILES = {rows.LITERAL: "literal-reward", rows.PRINTED: "all-as-printed"}
_AS_PRINTED = {rows.LITERAL: SarsaSettings(reward="literal", keep="last"), rows.PRINTED: PAPER}
#: Processors -> how the native starts compare with simulated ones, for the verdicts.
_MACHINES = {
    PROCESSORS_OF_2011: "the native starts were made on LPC's 140 processors, the others on 81",
    PROCESSORS_OF_LPC: "LPC's own machine of 140 processors",
}
#: Processors -> title of a segment of LPC-EGEE -> policies on it.
Segments = Mapping[int, Mapping[str, PairedTrial]]


def _steps(asked: Asked) -> int:
    effort, on_lpc = asked.effort, asked.traces is not None
    networks = len(load.FRACTIONS) + len(_AS_PRINTED) + 1 + on_lpc
    curves = sum(task.steps for tasks in rows.curve_tasks(effort).values() for task in tasks)
    segments = len(load.MEASURED_SEGMENTS) * len(_MACHINES) * on_lpc
    logs = (len(load.FRACTIONS) + 1) * asked.number_of_seeds() + segments + on_line.steps(asked)
    return logs + networks * effort.sweeps + curves


def _trial(
    asked: Asked,
    store: ResultStore,
    p: float,
    shares: Mapping[str, float],
    networks: Mapping[str, QNetwork],
) -> PairedTrial:
    """The rules and some networks, RL among them, on the generated load."""
    [training_log] = load.generated(p, [load.TRAINING_SEED], asked.effort, shares)
    policies = load.contenders(networks[load.RL], medians_of(training_log))
    policies |= {name: Candidate(name="", network=each) for name, each in networks.items()}
    logs = load.generated(p, range(asked.number_of_seeds()), asked.effort, shares)
    return run_trial(logs, policies, asked.effort.drop_of(load.DROP), store.add)


def _on_segments(effort: Effort, store: ResultStore, log: JobLog, network: QNetwork) -> Segments:
    found: dict[int, dict[str, PairedTrial]] = {capacity: {} for capacity in _MACHINES}
    for capacity, trials in found.items():
        logs = prepared_segments(log, load.MEASURED_SEGMENTS, capacity, effort.jobs)
        earlier = prepared_segments(log, [each - 1 for each in load.MEASURED_SEGMENTS], capacity)
        for number, prepared in logs.items():
            policies = rules(NATIVE) | load.contenders(network, medians_of(earlier[number - 1]))
            drop = effort.drop_of(SEGMENT_DROP)
            title = f"LPC-EGEE segment {number}, {capacity} processors"
            trials[title] = run_trial([prepared], policies, drop, store.add)
    return found


def run(asked: Asked) -> Outcome:
    """Train, simulate and judge."""
    seeds, effort = asked.number_of_seeds(), asked.effort
    traces = asked.traces_or_less()
    log = None if traces is None else read_lpc(traces)  # may fail: before the trainings
    segments: Segments = {}
    with asked.bar("training and simulating", _steps(asked)) as add:
        store = ResultStore(asked.models, add)

        def network(task: LearningTask) -> QNetwork:
            return store.network(task).q_network

        as_printed = {
            name: network(load.learning_task(_FILES[name], SHOWN, effort, each))
            for name, each in _AS_PRINTED.items()
        }
        learned = {
            p: network(load.learning_task("reactive-grids", p, effort, SarsaSettings()))
            for p in load.FRACTIONS
        }
        shown = {load.RL: learned[SHOWN], **as_printed}
        feasible = {
            p: _trial(asked, store, p, load.FEASIBLE, shown if p == SHOWN else {load.RL: each})
            for p, each in learned.items()
        }
        settings, shares = SarsaSettings(), load.INFEASIBLE
        task = load.learning_task("infeasible", SHOWN, effort, settings, shares=shares)
        infeasible = _trial(asked, store, SHOWN, shares, {load.RL: network(task)})
        if log is not None:
            segments = _on_segments(effort, store, log, network(load.segments_task(log, effort)))
        curves = rows.learning_curves(effort, store)
        learning = on_line.learn(asked, log, store)
    found = [
        *rows.rows_of_table_1(),
        *(row for p in load.FRACTIONS for row in rows.rows_of_waits(p, feasible[p])),
        *(row for p in load.FRACTIONS for row in rows.rows_of_holding(p, feasible[p])),
        *rows.rows_of_shares(feasible[SHOWN], infeasible),
    ]
    for capacity, trials in segments.items():
        for group, trial in trials.items():
            found += rows.rows_of_segment(group, trial, _MACHINES[capacity])
    found += rows.rows_of_literal_reward(feasible[SHOWN], shown)
    found += [*rows.rows_of_calibration(curves), *on_line.rows_of(learning)]
    claims = load.DECLARED.claims(found)
    waits = [each for each in claims if each.cell.column.endswith("mean wait (s)")]
    drawings = {
        "table-2.png": partial(comparison, waits, "wait (s)"),
        "fig-3-interactive-waits.png": partial(_draw_figure_3, feasible),
        "fig-4-5-fairness.png": partial(_draw_fairness, feasible[SHOWN], infeasible),
    }
    if segments:
        of_2011 = segments[PROCESSORS_OF_2011]
        places = {title: (each, 0) for title, each in of_2011.items()}
        drawings |= {
            "fig-6-segment-waits.png": partial(cumulative_waits, of_2011, _TRACE_STYLES),
            "fig-6-segment-wait-differences.png": partial(_draw_differences, of_2011),
            "fig-7-segment-fairness.png": partial(fairness_gaps, places, _TRACE_STYLES),
            "fig-6-learning.png": partial(_draw_learning, learning[on_line.SEGMENTS]),
        }
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        drawings=drawings,
        facts={"on_line": on_line.facts(learning), "shipped": shipped_figures(asked)},
    )


_COLOURS = ("tab:blue", "tab:orange", "tab:green")
_STYLES = {FIFO: "--", load.RL: "-", SJF: ":"}
_INSTANTS = 300


def _draw_figure_3(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = panels(["wait", "relative overhead"], (5, 4.8), share=True)
    for colour, (p, trial) in zip(_COLOURS, trials.items(), strict=False):
        for policy, style in _STYLES.items():
            waits, run_times = trial.pooled(policy, interactive=True)
            overhead = relative_overhead(waits, run_times)
            for axis, values in zip(
                axes, (np.maximum(waits, 1.0), np.maximum(overhead, 1e-3)), strict=True
            ):
                draw_cumulative(axis, values, style, colour, f"{policy}, p = {p}")
    for axis, goal in zip(axes, (INTERACTIVE_WAIT_GOAL, 1.0), strict=True):
        axis.axhline(0.9, color="grey", linewidth=0.8)
        axis.axvline(goal, color="grey", linewidth=0.8)
    axes[1].set_xlabel("wait / run time (below 0.001 drawn at 0.001)")
    across = "wait (s, below 1 s drawn at 1 s; line at 2 minutes)"
    up = "fraction of interactive jobs (line at 0.9)"
    return finished(figure, axes, across, up, log="x", columns=3)


def _draw_fairness(feasible: PairedTrial, infeasible: PairedTrial) -> Any:
    titles = ("targets 0.7/0.2/0.05/0.05 (feasible)", "targets 0.4/0.2/0.2/0.2 (infeasible)")
    figure, axes = panels(titles, (5, 4.5))
    for axis, trial in zip(axes, (feasible, infeasible), strict=True):
        for colour, policy in zip(_COLOURS, (FIFO, load.RL, SJF), strict=True):
            schedules = trial.schedules[policy]
            first = min(500, len(schedules[0].submit) // 10)
            begin = max(float(jobs.submit[first] - jobs.submit[0]) for jobs in schedules)
            end = min(float(jobs.submit[-1] - jobs.submit[0]) for jobs in schedules)
            seconds = np.linspace(begin, end, _INSTANTS)
            curves = [fairness_over_time(jobs, jobs.submit[0] + seconds) for jobs in schedules]
            low, middle, high = np.quantile(curves, [0.025, 0.5, 0.975], axis=0)
            hours = seconds / HOUR
            axis.plot(hours, middle, color=colour, label=f"{policy}, median of the logs")
            axis.fill_between(hours, low, high, color=colour, alpha=0.12, linewidth=0)
    axes[0].axhline(
        0.94, color="grey", linestyle=":", label="0.94 (paper, at 13.9 h) or bound 0.625"
    )
    axes[1].axhline(rows.INFEASIBLE_BOUND, color="grey", linestyle=":")
    across = "simulated time (h), first 500 jobs left out"
    up = "fairness (eq. 4); band: middle 95 % of the logs"
    return finished(figure, axes, across, up, columns=2)


#: Jobs over which differences of waits are averaged.
_WINDOW = 200
_TRACE_STYLES = {
    NATIVE: ("black", "-"),
    FIFO: ("tab:blue", "-"),
    load.RL: ("tab:orange", "-"),
    SJF: ("tab:green", "-"),
}


def _draw_learning(trial: on_line.Trial) -> Any:
    titles = [
        f"LPC-EGEE segment {n}, {PROCESSORS_OF_LPC} processors" for n in load.MEASURED_SEGMENTS
    ]
    figure, axes = panels(titles, (5, 3.5), rows=2)
    styles = {FIFO: ("tab:blue", "-"), NATIVE: ("black", "-")}
    colours = ("tab:orange", "tab:green", "tab:purple")
    for reading, colour in zip(on_line.READINGS, colours, strict=False):
        styles[f"{reading.name}, {on_line.ON_LINE}"] = (colour, "-")
        styles[f"{reading.name}, {on_line.FROZEN}"] = (colour, ":")
    for place, axis in enumerate(axes):
        for name, (colour, style) in styles.items():
            windows = trial[name]["windows"][place]
            parts = (np.arange(len(windows)) + 0.5) / len(windows)
            axis.plot(parts, windows, style, color=colour, label=name)
    across = "part of the jobs, by arrival"
    return finished(figure, axes, across, "mean time utility", columns=2)


def _draw_differences(segments: Mapping[str, PairedTrial]) -> Any:
    figure, axes = panels(list(segments), (5, 3.5), rows=2)
    for axis, trial in zip(axes, segments.values(), strict=False):
        for name, (colour, style) in _TRACE_STYLES.items():
            if name != NATIVE:
                submit, difference = rows.wait_differences(trial, name)
                window = min(_WINDOW, len(difference))
                smooth = np.convolve(difference / HOUR, np.full(window, 1 / window), mode="valid")
                axis.plot(submit[: len(smooth)] / DAY, smooth, style, color=colour, label=name)
        axis.axhline(0.0, color="black", linewidth=0.8)
    up = f"native wait less the policy's (h),\nmean of {_WINDOW} jobs"
    return finished(figure, axes, "arrival (days)", up, columns=5)
