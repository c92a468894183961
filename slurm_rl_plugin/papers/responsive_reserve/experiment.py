"""Beyond both papers: networks that hold processors for interactive jobs, and their goals.

On the load of 2008 the run trains the networks on logs of seeds 1000 and above, one network for all
three fractions of interactive jobs. On LPC-EGEE the shipped network runs, which was not trained on
the four segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.evaluation.paired import Candidate, medians_of
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.policy_search import PolicySearchSettings
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.measure.intervals import BLOCK_JOBS
from slurm_rl_plugin.papers.reactive_grids_2008 import load
from slurm_rl_plugin.papers.study import claims, trials
from slurm_rl_plugin.papers.study.figures import legend_above, panels
from slurm_rl_plugin.papers.study.result_store import LearnedNetwork, LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Add, Asked, Effort, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import JobMeasures

WAIT_TO_SJF = "mean wait / SJF's"
WAIT_TO_FIFO = "mean wait / FIFO's"
BATCH_TO_SJF = "batch mean wait / SJF's"
INTERACTIVE_GAIN = "interactive: FIFO's mean wait / its own"
LONGEST_TO_FIFO = "longest wait / FIFO's, median"
FAIRNESS_LOST = "F less FIFO's"

#: Column -> the figure, and the policy of the denominator (definitions: paired ratio).
_RATIOS = {
    WAIT_TO_SJF: ("mean wait", trials.SJF),
    WAIT_TO_FIFO: ("mean wait", trials.FIFO),
    BATCH_TO_SJF: ("batch mean wait", trials.SJF),
}


def measured(trial: trials.PairedTrial, policy: str, column: str) -> claims.Measurement:
    """A figure with its interval over the logs."""
    if column in _RATIOS:
        figure, other = _RATIOS[column]
        return trial.ratio_of_means(figure, policy, other)
    if column == INTERACTIVE_GAIN:
        return trial.ratio_of_means("interactive mean wait", trials.FIFO, policy)
    if column == LONGEST_TO_FIFO:
        return claims.measure(trial.ratio("longest wait", policy, trials.FIFO), claims.median)
    if column == FAIRNESS_LOST:
        return claims.measure(trial.figure(policy, "F") - trial.figure(trials.FIFO, "F"))
    return claims.measure(trial.figure(policy, column))


WITHIN = "interactive within 120 s"


def _fraction(trial: trials.PairedTrial, policy: str, column: str) -> tuple[FloatArray, FloatArray]:
    """Numerator and denominator of a figure that are summed over blocks; of each counted job."""
    [jobs] = trial.schedules[policy]
    counted = slice(trial.drop[0], len(jobs.submit) - trial.drop[1])
    mine, fifo, sjf = (
        JobMeasures.of(trial.schedules[each][0]) for each in (policy, trials.FIFO, trials.SJF)
    )
    wait, quick = mine.wait[counted], jobs.interactive[counted]
    if column == WITHIN:
        soon = quick & (wait <= INTERACTIVE_WAIT_GOAL)
        return soon.astype(np.float64), quick.astype(np.float64)
    if column == BATCH_TO_SJF:
        return np.where(quick, 0.0, wait), np.where(quick, 0.0, sjf.wait[counted])
    if column == FAIRNESS_LOST:
        return (mine.fairness - fifo.fairness)[counted], np.ones_like(wait)
    return mine.responsiveness[counted], np.ones_like(wait)


def measured_on_one_log(trial: trials.PairedTrial, policy: str, column: str) -> claims.Measurement:
    """A figure of a trial of one log, its interval by bootstrap over blocks of BLOCK_JOBS jobs."""
    fraction = _fraction(trial, policy, column)
    blocks = max(len(fraction[0]) // BLOCK_JOBS, 2)
    sums = [[part.sum() for part in np.array_split(each, blocks)] for each in fraction]
    return claims.measure(np.array(sums), claims.ratio_of_means)


GREEDY, HOLD, TAIL_SAFE = "SARSA", "hold", "tail-safe"
GREEDY_EST, HOLD_EST = "greedy EST", "hold EST"


DECLARED = claims.Declared(__package__)
#: Segments of LPC-EGEE that have goals.
_SEGMENTS = (14, 17, 18, 19)
#: Columns of every policy on the 2008 load, and on a segment.
SYNTHETIC_COLUMNS = (
    *("J", "interactive mean wait", "interactive within 120 s"),
    *(WAIT_TO_FIFO, LONGEST_TO_FIFO),
)
SEGMENT_COLUMNS = ("R", "interactive within 120 s", BATCH_TO_SJF, FAIRNESS_LOST)
BASELINES = (trials.FIFO, trials.SJF)


#: A figure of a policy in a trial, by its column.
Figure = Callable[[trials.PairedTrial, str, str], claims.Measurement]
#: Rules that the networks are compared with.
_RULES = (
    trials.FIFO,
    trials.INTERACTIVE_FIRST,
    trials.SJF,
    *(f"{trials.SJF}, {held} held" for held in (1, 2, 4)),
)
#: Logs of each fraction to learn on, and to choose on.
_LOGS = 2
_J = {"time_utility": 0.5, "responsiveness": 0.0, "fairness": 0.5}
#: Longest waits hardly count, or weigh so much that up to four times FIFO's is accepted.
_LOOSE, _TAIL_SAFE = RewardWeights(**_J, tail=0.001), RewardWeights(**_J, tail=0.05)
_HOLDING = PolicySearchSettings(
    hidden=1, hold=True, searched="reserve", generations=15, weights=_LOOSE
)
#: Network -> settings of its search, and whether it knows run times.
SEARCHES: Mapping[str, tuple[PolicySearchSettings, bool]] = {
    HOLD: (replace(_HOLDING, start="sjf", generations=30), True),
    TAIL_SAFE: (replace(_HOLDING, start="expansion-factor", weights=_TAIL_SAFE), True),
    GREEDY_EST: (PolicySearchSettings(hidden=2, generations=20, weights=_LOOSE), False),
    HOLD_EST: (_HOLDING, False),
}


#: The network with its reserve scaled, to show the effect of more and of less.
SCALED = {
    f"hold, reserve times {factor:g}": factor for factor in (0, 0.25, 0.5, 0.75, 1.25, 1.5, 2)
}


def _generations(settings: PolicySearchSettings, effort: Effort) -> int:
    return min(settings.generations, effort.sweeps) if effort.jobs else settings.generations


def _steps(asked: Asked) -> int:
    searched = sum(_generations(each, asked.effort) for each, _ in SEARCHES.values())
    learned = len(load.FRACTIONS) * asked.effort.sweeps + searched
    segments = len(_SEGMENTS) * (asked.traces is not None)
    return learned + len(load.FRACTIONS) * asked.number_of_seeds() + segments


def _task(name: str, effort: Effort) -> LearningTask:
    settings, oracle = SEARCHES[name]
    settings = replace(settings, generations=_generations(settings, effort))

    return LearningTask(
        name=name.replace(" ", "-").lower(),
        settings=settings,
        sources=[f"mmn p={load.FRACTIONS} logs={_LOGS} jobs={effort.jobs} oracle={oracle}"],
        loads=lambda: (
            _loads(load.TRAINING_SEED, effort, oracle),
            _loads(load.VALIDATION_SEED, effort, oracle),
        ),
    )


def _loads(first: int, effort: Effort, oracle: bool) -> list[TrainingLoad]:
    found: list[TrainingLoad] = []
    for interactive in load.FRACTIONS:
        logs = load.generated(interactive, range(first, first + _LOGS), effort, load.FEASIBLE)
        found += load.training_loads(logs, None if oracle else _medians(interactive, effort))
    return found


def _medians(interactive: float, effort: Effort) -> ClassMedian:
    [training_log] = load.generated(interactive, [load.TRAINING_SEED], effort, load.FEASIBLE)
    return medians_of(training_log)


def _on_synthetic(
    interactive: float,
    asked: Asked,
    searched: Mapping[str, LearnedNetwork],
    store: ResultStore,
) -> trials.PairedTrial:
    greedy = store.network(
        load.learning_task("reactive-grids", interactive, asked.effort, SarsaSettings())
    )
    medians = _medians(interactive, asked.effort)
    policies = {**trials.rules(*_RULES), GREEDY: Candidate(name="", network=greedy.network)}
    policies |= trials.rules(trials.MIN_RUN_WAIT, medians=medians)
    for name, (_, oracle) in SEARCHES.items():
        policies[name] = Candidate(
            name="", network=searched[name], estimates=None if oracle else medians
        )
    logs = load.generated(interactive, range(asked.number_of_seeds()), asked.effort, load.FEASIBLE)
    return trials.run_trial(logs, policies, asked.effort.drop_of(load.DROP), store.add)


def _on_segments(
    log: JobLog, reserve: QNetwork, effort: Effort, add: Add
) -> dict[str, trials.PairedTrial]:
    logs = trials.prepared_segments(log, _SEGMENTS, trials.PROCESSORS_OF_2011, effort.jobs)
    weights, bias, scaled = reserve.reserve_weights, reserve.reserve_bias, {}
    for name, factor in SCALED.items():
        held = None if weights is None else weights * factor
        network = replace(reserve, reserve_weights=held, reserve_bias=bias * factor)
        scaled[name] = Candidate(name="", network=network)
    found = {}
    for number, segment in logs.items():
        policies = {
            **trials.rules(trials.NATIVE, *_RULES),
            HOLD: Candidate(name="", network=reserve),
            HOLD_EST: Candidate(name="", network=reserve, estimates=medians_of(segment)),
            **scaled,
        }
        drop = effort.drop_of(trials.SEGMENT_DROP)
        found[f"LPC-EGEE segment {number}"] = trials.run_trial([segment], policies, drop, add)
    return found


def _rows(group: str, trial: trials.PairedTrial, figure: Figure) -> Iterator[claims.Row]:
    for goal in DECLARED.goals(group):
        policy, column = str(goal.policy), str(goal.column)
        means = {name: figure(trial, name, column).value for name in BASELINES}
        yield claims.row_of(group, policy, column, figure(trial, policy, column), baselines=means)


def _figures(group: str, trial: trials.PairedTrial, figure: Figure) -> Iterator[claims.Row]:
    columns = SYNTHETIC_COLUMNS if figure is measured else SEGMENT_COLUMNS
    for policy in trial.measures:
        for column in columns:
            yield claims.row_of(group, policy, column, figure(trial, policy, column))


_MARKERS = "osD^v<>PX*hp"


def _draw(
    parts: Mapping[str, trials.PairedTrial],
    columns: tuple[str, str],
    rows: int,
    size: tuple[float, float],
    names: int,
) -> Any:
    """Every policy by two figures, a panel for each group, with the goals; `names` in a row."""
    figure, axes = panels(list(parts), size, rows=rows)
    for axis, (group, trial) in zip(axes, parts.items(), strict=True):
        # the native starts come from another machine, far to the left
        shown = [name for name in trial.measures if name not in SCALED and name != trials.NATIVE]
        for place, name in enumerate(shown):
            across, up = (measured(trial, name, column).value for column in columns)
            marker = _MARKERS[place % len(_MARKERS)]
            axis.plot(across, up, marker, color=f"C{place % 10}", markersize=7, label=name)
        for goal in DECLARED.goals(group):
            line = {"color": "tab:grey", "linestyle": ":", "linewidth": 1.0, "label": "goals"}
            if goal.column == columns[0]:
                axis.axvline(float(str(goal.printed)), **line)
            elif goal.column == columns[1]:
                axis.axhline(float(str(goal.printed)), **line)
        scaled = [name for name in SCALED if name in trial.measures]
        if scaled:
            points = [[measured(trial, name, each).value for name in scaled] for each in columns]
            axis.plot(*points, color="black", linewidth=0.8, label="reserve scaled 0 to 2 times")
        axis.set(xlabel=columns[0], ylabel=columns[1])
    legend_above(figure, axes[0], columns=names)
    return figure


def run(asked: Asked) -> Outcome:
    """Train on the load of 2008; run the shipped network on LPC-EGEE."""
    seeds, effort = asked.number_of_seeds(), asked.effort
    traces = asked.traces_or_less()
    reserve = import_network(asked.shipped(asked.paper))
    segments = {}
    with asked.bar("training and simulating", _steps(asked)) as add:
        store = ResultStore(asked.models, add)
        if traces is not None:
            segments = _on_segments(trials.read_lpc(traces), reserve, effort, add)
        searched = {name: store.network(_task(name, effort)).network for name in SEARCHES}
        synthetic = {
            f"2008 load, p = {p}": _on_synthetic(p, asked, searched, store) for p in load.FRACTIONS
        }
    parts = [(*each, measured) for each in synthetic.items()]
    parts += [(*each, measured_on_one_log) for each in segments.items()]
    found = DECLARED.claims(row for each in parts for row in _rows(*each))
    found += [row for each in parts for row in _figures(*each)]
    on_load, on_segments = (WAIT_TO_FIFO, "J"), (BATCH_TO_SJF, "R")
    name = "responsive-reserve"
    drawings = {f"{name}.png": lambda: _draw(synthetic, on_load, 1, (4, 4.6), 6)}
    if segments:
        drawings[f"{name}-segments.png"] = lambda: _draw(segments, on_segments, 2, (5.5, 4.25), 5)
    return Outcome(claims=found, seeds=range(seeds), drawings=drawings)
