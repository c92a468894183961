"""The 2008 paper, "Utility-based Reinforcement Learning for Reactive Grids", run again.

SARSA trains the network on generated logs of seeds 1000 and above. It is measured on seeds 0 to
N - 1, with FIFO and rules that need no learning on the same logs. The log of the LAL site is not
public; segments of LPC-EGEE replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    candidate_of_model,
    evaluate,
    medians_of,
)
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.sarsa import PAPER, SarsaSettings
from slurm_rl_plugin.learning.training_load import log_window
from slurm_rl_plugin.papers.reactive_grids_2008 import load, on_line, rows
from slurm_rl_plugin.papers.study.claims import TextTable
from slurm_rl_plugin.papers.study.figures import draw_cumulative, draw_intervals, finished, panels
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Effort, Outcome
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    LOGS,
    LONGEST_FIRST,
    NATIVE,
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    SJF,
    Contender,
    PairedTrial,
    archived_log,
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
from slurm_rl_plugin.units import DAY, HOUR, INTERACTIVE_WAIT_GOAL, MINUTE
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
#: Segment and processors -> policies on LPC-EGEE.
Segments = Mapping[tuple[int, int], PairedTrial]


def _steps(asked: Asked) -> int:
    effort, on_lpc = asked.effort, asked.traces is not None
    networks = 0 if asked.policy else len(load.FRACTIONS) + 1 + on_lpc
    curves = sum(task.steps for tasks in rows.curve_tasks(effort).values() for task in tasks)
    segments = len(load.MEASURED_SEGMENTS) * len(_MACHINES) * on_lpc
    logs = (len(load.FRACTIONS) + 1) * asked.number_of_seeds() + segments + on_line.steps(asked)
    return logs + (networks + 2) * effort.sweeps + curves


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
    policies |= {name: Contender(network=each) for name, each in networks.items()}
    logs = load.generated(p, range(asked.number_of_seeds()), asked.effort, shares)
    return run_trial(logs, policies, asked.effort.drop_of(load.DROP), store.add)


def _on_segments(effort: Effort, store: ResultStore, log: JobLog, network: QNetwork) -> Segments:
    found = {}
    for capacity in _MACHINES:
        logs = prepared_segments(log, load.MEASURED_SEGMENTS, capacity, effort.jobs)
        earlier = prepared_segments(log, [each - 1 for each in load.MEASURED_SEGMENTS], capacity)
        for number, prepared in logs.items():
            policies = rules(NATIVE) | load.contenders(network, medians_of(earlier[number - 1]))
            drop = effort.drop_of(SEGMENT_DROP)
            found[number, capacity] = run_trial([prepared], policies, drop, store.add)
    return found


def _given_network(path: Path) -> QNetwork:
    network = import_network(path)
    if network.schema != REACTIVE_GRID:
        raise ConfigurationError(
            f"model {path} is of schema {network.schema.name}: give one of {REACTIVE_GRID.name}, "
            "which `slurm-rl train --algorithm sarsa` writes."
        )
    return network


def run(asked: Asked) -> Outcome:
    """Train, or take the given network, simulate and judge."""
    seeds, effort = asked.number_of_seeds(), asked.effort
    traces = asked.traces_or_less()
    given = None if asked.policy is None else _given_network(asked.policy)
    log = None if traces is None else read_lpc(traces)  # may fail: before the trainings
    segments: Segments = {}
    with asked.bar("training and simulating", _steps(asked)) as add:
        store = ResultStore(asked.models, add)

        def network(task: LearningTask) -> QNetwork:
            return given or store.network(task).q_network

        as_printed = {
            name: store.network(load.learning_task(_FILES[name], SHOWN, effort, each)).q_network
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
    for (number, capacity), trial in segments.items():
        group = f"LPC-EGEE segment {number}, {capacity} processors"
        found += rows.rows_of_segment(group, trial, _MACHINES[capacity])
    found += rows.rows_of_literal_reward(feasible[SHOWN], shown)
    found += [*rows.rows_of_calibration(curves), *on_line.rows_of(learning)]
    drawings = {
        "table-2.png": lambda: _draw_table_2(feasible),
        "conservation-of-work.png": lambda: _draw_conservation(feasible),
        "fig-3-interactive-waits.png": lambda: _draw_figure_3(feasible),
        "fig-4-5-fairness.png": lambda: _draw_fairness(feasible[SHOWN], infeasible),
        "literal-reward.png": lambda: _draw_literal_reward(feasible[SHOWN], shown),
        "calibration.png": lambda: _draw_curves(curves),
    }
    if segments:
        drawings |= {
            "fig-6-segment-waits.png": lambda: _draw(segments, _draw_waits),
            "fig-6-segment-wait-differences.png": lambda: _draw(segments, _draw_differences),
            "fig-7-segment-fairness.png": lambda: _draw(segments, _draw_fairness_gap),
            "fig-6-learning.png": lambda: _draw_learning(learning[on_line.SEGMENTS]),
        }
    shipped = shipped_figures(asked)
    columns = [f"{name}, {figure}" for name in shipped for figure in ("J", "<= 120 S")]
    table = [
        [policy, *(value for each in shipped.values() for value in each[policy].values())]
        for policy in next(iter(shipped.values()))
    ]
    return Outcome(
        claims=load.DECLARED.claims(found),
        seeds=range(seeds),
        drawings=drawings,
        more=[
            *on_line.report(learning),
            "\nShipped models, J = U/2 + F/2 and interactive jobs within 120 s:",
            TextTable.of(["POLICY", *columns], table, ".3f"),
        ],
        facts={"on_line": on_line.facts(learning), "shipped": shipped},
    )


_COLOURS = ("tab:blue", "tab:orange", "tab:green")
_STYLES = {FIFO: "--", load.RL: "-", SJF: ":"}
_INSTANTS = 300


def _draw_table_2(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = panels(["interactive jobs", "batch jobs"], (5, 4.5), share=True)
    names = [f"{policy}\n{p}" for p in trials for policy in (FIFO, load.RL)]
    for axis, job_class in zip(axes, ("interactive", "batch"), strict=True):
        cells = [(p, trial, policy) for p, trial in trials.items() for policy in (FIFO, load.RL)]
        for place, (p, trial, policy) in enumerate(cells):
            draws = np.maximum(trial.figure(policy, f"{job_class} mean wait"), 1.0)
            (low, high), middle = np.quantile(draws, [0.025, 0.975]), draws.mean()
            error = [[max(middle - low, 0.0)], [max(high - middle, 0.0)]]
            label = "measured: mean, and the middle 95 % of single logs"
            axis.errorbar([place], [middle], error, fmt="x", color="C0", capsize=4, label=label)
            printed = load.printed_waits(p, policy, job_class)[0]
            style = {"color": "C3", "markerfacecolor": "none", "label": "printed in Table II"}
            axis.plot([place], [printed], "o", **style)
        axis.set_xticks(range(len(names)), names)
    across = "policy, fraction p of interactive jobs"
    return finished(figure, axes, across, "mean wait (s)", log="y")


def _draw_conservation(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = panels([f"p = {p}" for p in trials], (4, 4.2), share=True)
    for axis, (p, trial) in zip(axes, trials.items(), strict=True):
        ratios = {
            name: trial.ratio_of_means("work-weighted wait", name, FIFO)
            for name in trial.measures
            if name not in (FIFO, rows.LITERAL, rows.PRINTED)
        }
        draw_intervals(axis, ratios)
        bounds = [rows.implied_ratio(p, most=each) for each in (False, True)]
        axis.axvspan(*bounds, color="tab:red", alpha=0.3, label="implied by Table II")
        axis.axvline(1.0, color="grey", linestyle="--", label="FIFO")
        axis.set_xlim(left=0.0)
    return finished(figure, axes, "sum of run time x wait,\nas a fraction of FIFO's", "")


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
            curves = [rows.fairness_over_time(jobs, jobs.submit[0] + seconds) for jobs in schedules]
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


def _draw_literal_reward(trial: PairedTrial, networks: Mapping[str, QNetwork]) -> Any:
    titles = ("what the networks learned: higher starts first", "what they do")
    figure, (left, right) = panels(titles, (5.5, 4.5))
    run_times = np.geomspace(10.0, 40_000.0, 200)
    for policy, name, colour in (
        (rows.LITERAL, "reward as printed", "tab:red"),
        (rows.PRINTED, "all settings as printed", "tab:purple"),
        (load.RL, "difference reward", "tab:blue"),
    ):
        scores = rows.scores_by_run_time(networks[policy], run_times)
        left.plot(run_times / MINUTE, scores, color=colour, label=name)
    left.axvline(15.0, color="grey", linestyle=":", label="interactive | batch")
    left.set_xscale("log")
    names = (rows.LITERAL, rows.PRINTED, LONGEST_FIRST, FIFO, load.RL, SJF)
    means = [float(trial.figure(name, "mean wait").mean()) for name in names]
    right.barh(names, means, color=["tab:red", "tab:purple", "grey", "grey", "tab:blue", "grey"])
    right.set_xlabel(f"mean wait (s), p = {SHOWN}")
    up = "score on a crowded grid (standardised)"
    return finished(figure, (left, right), "run time of the job (min)", up)


def _draw_curves(curves: rows.Curves) -> Any:
    figure, [axis] = panels(["calibrating SARSA off-line, p = 0.5"], (8, 4.5))
    for colour, (kind, objective) in zip(_COLOURS, curves.items(), strict=True):
        jobs = rows.SWEEP_JOBS * np.arange(objective.shape[1])
        axis.plot(jobs, objective.mean(axis=0), color=colour, label=rows.PRETRAININGS[kind])
        low, high = objective.min(axis=0), objective.max(axis=0)
        axis.fill_between(jobs, low, high, color=colour, alpha=0.15, linewidth=0)
    up = "objective on the validation logs\n(mean and range of the learners)"
    return finished(figure, [axis], "jobs learned from", up)


#: Jobs over which differences of waits are averaged.
_WINDOW = 200
_TRACE_COLOURS = {NATIVE: "black", FIFO: "tab:blue", load.RL: "tab:orange", SJF: "tab:green"}


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


def _draw(segments: Segments, draw: Callable[[Any, PairedTrial], tuple[str, str]]) -> Any:
    """A panel for each segment on the processors of 2011; `draw` gives the names of the axes."""
    shown = {key: each for key, each in segments.items() if key[1] == PROCESSORS_OF_2011}
    titles = [f"LPC-EGEE segment {number}, {capacity} processors" for number, capacity in shown]
    figure, axes = panels(titles, (5, 3.5), rows=2)
    for axis, trial in zip(axes, shown.values(), strict=False):
        across, up = draw(axis, trial)
    return finished(figure, axes, across, up, columns=5)


def _draw_waits(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _TRACE_COLOURS.items():
        waits, _ = trial.pooled(name, interactive=True)
        draw_cumulative(axis, np.maximum(waits, 1.0), "-", colour, name)
    axis.axvline(INTERACTIVE_WAIT_GOAL, color="grey", linestyle=":", label="2 minutes")
    axis.set_xscale("log")
    return "wait (s, below 1 s drawn at 1 s)", "fraction of interactive jobs"


def _draw_differences(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _TRACE_COLOURS.items():
        if name != NATIVE:
            submit, difference = rows.wait_differences(trial, name)
            window = min(_WINDOW, len(difference))
            smooth = np.convolve(difference / HOUR, np.full(window, 1.0 / window), mode="valid")
            axis.plot(submit[: len(smooth)] / DAY, smooth, color=colour, label=f"native - {name}")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "arrival (days)", f"difference of waits (h),\nmean of {_WINDOW} jobs"


def _draw_fairness_gap(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _TRACE_COLOURS.items():
        if name != NATIVE:
            seconds, gap = rows.fairness_gap(trial, name)
            axis.plot(seconds / DAY, gap, color=colour, label=f"{name} - native")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "time (days)", "difference of fairness (eq. 4)"
