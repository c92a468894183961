"""The 2011 paper, "Non-Markovian Reinforcement Learning for Reactive Grid scheduling", run again.

Fitted Q iteration trains a feed-forward and an echo state network, with run times known (ORA) or
the median of their class (EST), on generated logs of seeds 1000 and above. They are measured on
seeds 0 to N - 1 and on segments of LPC-EGEE, which replace the log of the LAL site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.features.history.run_history import PARTS
from slurm_rl_plugin.learning.evaluation.paired import Candidate, medians_of
from slurm_rl_plugin.learning.fitted_q import FittedQSettings
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008.load import training_loads
from slurm_rl_plugin.papers.reactive_grids_2008.study import crowded_segment
from slurm_rl_plugin.papers.study import claims, trials
from slurm_rl_plugin.papers.study.figures import (
    cumulative_waits,
    fairness_gaps,
    finished,
    interval_panels,
    panels,
)
from slurm_rl_plugin.papers.study.result_store import LearnedNetwork, LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Add, Asked, Effort, Outcome
from slurm_rl_plugin.policies.echo_state import ReservoirSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import quantiles_at_start
from slurm_rl_plugin.units import DAY, SHORT_JOB_RUN_TIME, BoolArray, FloatArray
from slurm_rl_plugin.utility.time_utility import responsiveness

#: The learned policies: feed-forward (NN) or echo state network (ESN), run times known (ORA) or
#: the median of the class (EST).
LEARNED = ("NN-ORA", "NN-EST", "ESN-ORA", "ESN-EST")
#: Suffix of a policy learned by the reward as printed, not by the difference reward.
PRINTED = ", as printed"
AS_PRINTED = tuple(f"{name}{PRINTED}" for name in LEARNED)
#: Controls: the same echo state network without memory.
FORGETFUL = ("ESN0-ORA", "ESN0-EST")
#: Policies that the learned ones are compared with in every claim.
_HOLDING = f"{trials.SJF}, 4 held"
BASELINES = (
    trials.NATIVE,
    trials.FIFO,
    trials.SJF,
    trials.INTERACTIVE_FIRST,
    trials.MIN_RUN_WAIT,
    _HOLDING,
)

JOBS, PROCESSORS = 9500, 81
SHARES = {"vo0": 0.53, "vo1": 0.19, "vo2": 0.10, "vo3": 0.18}
#: Measured loads of the generator: a light one with rare queues (Table 1 would fill the machine to
#: 0.29), and one with the queues that the paper's native figures show.
LOADS = (0.44, 0.7)
#: Load to learn on: without a queue there is nothing to learn.
_TRAINING_LOAD = 0.7
_TRAINING_SEED, _VALIDATION_SEED = 1000, 2000
#: Without recurrent weights the echo state network sees only the present.
_WITHOUT_MEMORY = ReservoirSettings(spectral_radius=0.0, leak=1.0)
_SETTINGS = {
    "NN": FittedQSettings(regressor="feed-forward"),
    "ESN": FittedQSettings(regressor="echo-state"),
    "ESN0": FittedQSettings(regressor="echo-state", reservoir=_WITHOUT_MEMORY),
}


def generated(load: float, seeds: Iterable[int], effort: Effort) -> list[PreparedLog]:
    """EGEE-like logs, one a seed, with the paper's targets on its 81 processors."""
    jobs = effort.jobs_of(JOBS)
    logs = (egee_log(np.random.default_rng(seed), load=load, jobs=jobs) for seed in seeds)
    return [prepare_log(log, capacity=PROCESSORS, shares=SHARES) for log in logs]


def training_logs(effort: Effort) -> list[PreparedLog]:
    """Generated logs of seeds 1000 and above."""
    seeds = range(_TRAINING_SEED, _TRAINING_SEED + effort.training)
    return generated(_TRAINING_LOAD, seeds, effort)


def learning_task(name: str, learner: int, effort: Effort) -> LearningTask:
    """Fitted Q on logs of seeds 1000 and above; seeds 2000 and above choose the network."""
    regressor, estimates = name.removesuffix(PRINTED).split("-")
    settings = replace(_SETTINGS[regressor], iterations=effort.iterations, seed=learner)
    if name in AS_PRINTED:
        settings = replace(settings, reward="literal")

    def loads() -> tuple[list[TrainingLoad], list[TrainingLoad]]:
        training = training_logs(effort)
        medians = medians_of(*training) if estimates == "EST" else None
        seeds = range(_VALIDATION_SEED, _VALIDATION_SEED + effort.validation)
        return (
            training_loads(training, medians),
            training_loads(generated(_TRAINING_LOAD, seeds, effort), medians),
        )

    counts = (effort.training, effort.validation)
    return LearningTask(
        name=f"non-markovian-{regressor}-{estimates}-{settings.reward}-{learner}".lower(),
        settings=settings,
        sources=[f"egee load={_TRAINING_LOAD} jobs={effort.jobs_of(JOBS)} {counts} {estimates}"],
        loads=loads,
    )


def learn(effort: Effort, store: ResultStore) -> dict[str, list[LearnedNetwork]]:
    """Each of LEARNED and FORGETFUL -> its networks, one a learner; AS_PRINTED has one."""
    return {
        name: [
            store.network(learning_task(name, learner, effort)).network
            for learner in range(1, (1 if name in AS_PRINTED else effort.learners) + 1)
        ]
        for name in (*LEARNED, *FORGETFUL, *AS_PRINTED)
    }


def contenders(
    networks: Mapping[str, Sequence[LearnedNetwork]], medians: ClassMedian, *, native: bool
) -> dict[str, Candidate]:
    """The policies of an experiment; learned ones as "<name> <learner>"."""
    found = trials.rules(trials.NATIVE) if native else {}
    found |= trials.rules(*BASELINES[1:], medians=medians)
    for name, learned in networks.items():
        estimates = medians if "EST" in name else None
        for learner, network in enumerate(learned, start=1):
            policy = Candidate(name="", network=network, estimates=estimates)
            found[f"{name} {learner}"] = policy
    return found


DECLARED = claims.Declared(__package__)
#: What section 5 says is at least 0.90 under every learned policy.
_BOUNDS = (
    ("Section 5.1", "interactive R"),
    ("Fig. 2", "interactive R > 0.9"),
    ("Fig. 3", "interactive within 120 s"),
)
_ESTIMATES = ("ORA", "EST")
#: "25 Jul 2006 to 19 Oct 2006", which the paper calls more than seven weeks.
_PERIOD = (date(2006, 7, 25), date(2006, 10, 19))


def rows_of_tables(group: str, trial: trials.PairedTrial) -> Iterator[claims.Row]:
    """Every cell of Tables 2 and 3 with a policy of the trial."""
    for table in ("Table 2", "Table 3"):
        for printed in (trials.NATIVE, *LEARNED):
            for policy in (printed, f"{printed}{PRINTED}"):
                if policy in trial.measures:
                    for column in DECLARED.of(f"{table}, *").columns:
                        yield _row(f"{table}, {group}", trial, policy, column)


def _row(group: str, trial: trials.PairedTrial, policy: str, column: str) -> claims.Row:
    fifo, sjf = (float(trial.figure(each, column).mean()) for each in (trials.FIFO, trials.SJF))
    return trial.row(group, policy, column, BASELINES, words={"fifo": fifo, "sjf": sjf})


def rows_of_sentences(group: str, trial: trials.PairedTrial) -> Iterator[claims.Row]:
    """The sentences of section 5, on one load."""
    for section, column in _BOUNDS:
        for policy in LEARNED:
            yield _row(f"{section}, {group}", trial, policy, column)
    for network in ("NN", "ESN"):
        pair = (f"{network}-EST", f"{network}-ORA")
        nothing = claims.Printed(value=0.0, unit=0.01, text="0")
        yield _difference(f"Section 5.1, {group}", trial, pair, ("R", "R"), printed=nothing)
    for estimates in _ESTIMATES:
        yield memory_row(group, trial, estimates, "NN")
        yield memory_row(group, trial, estimates, "ESN0")
        yield _wait_row(group, trial, estimates)
    if trials.NATIVE in trial.measures:
        yield from rows_on_native(group, trial)


def memory_row(group: str, trial: trials.PairedTrial, estimates: str, other: str) -> claims.Row:
    """The gain of the echo state network for the 5 % least responsive interactive jobs."""
    one, two = pair = (f"ESN-{estimates}", f"{other}-{estimates}")
    column = "worst 5 %"
    words = {"one": trial.figure(one, column).mean(), "two": trial.figure(two, column).mean()}
    columns = (column, "R of the worst 5 % of the interactive jobs")
    return _difference(f"Memory, {group}", trial, pair, columns, words=words)


def _difference(
    group: str,
    trial: trials.PairedTrial,
    pair: tuple[str, str],
    columns: tuple[str, str],
    **more: Any,
) -> claims.Row:
    """The paired difference of two policies over learners and logs; `columns`: figure, shown."""
    one, two = (trials.figures_by_learner(trial, name, columns[0]) for name in pair)
    return claims.row_of(
        *(group, " - ".join(pair), columns[1], trials.measure_over_learners(one - two)),
        logs=len(trial.schedules[trials.FIFO]),
        baselines=trial.means(columns[0], BASELINES),
        **more,
    )


def _wait_row(group: str, trial: trials.PairedTrial, estimates: str) -> claims.Row:
    """Mean wait of interactive jobs, echo state over feed-forward network (Table 3)."""
    column, table = "interactive mean wait", DECLARED.of("Table 3, *")
    names = [f"{network}-{estimates}" for network in ("ESN", "NN")]
    echo, forward = (float(table.text(claims.Cell(group, name, column)) or "nan") for name in names)
    return claims.row(
        f"Table 3, {group}",
        " / ".join(names),
        column,
        trial.figure(names[0], column) / np.maximum(trial.figure(names[1], column), 1.0),
        printed=claims.Printed.rounded(echo / forward, 2),
        baselines=trial.means(column, BASELINES),
    )


def rows_on_native(group: str, trial: trials.PairedTrial) -> Iterator[claims.Row]:
    """What section 5 says about the native scheduler, on a load with recorded starts."""
    for policy in LEARNED:
        for column, section in (
            ("interactive R", "Section 5.1"),
            ("batch R", "Section 5.1"),
            ("F", "Fig. 4"),
        ):
            means = trial.means(column, BASELINES)
            native, over = trial.figure(trials.NATIVE, column), f"{policy} - {trials.NATIVE}"
            yield claims.row(
                *(f"{section}, {group}", over, column, trial.figure(policy, column) - native),
                baselines={
                    f"{name} - {trials.NATIVE}": each - means[trials.NATIVE]
                    for name, each in means.items()
                },
                words={
                    "policy": policy,
                    "fifo": float((trial.figure(trials.FIFO, column) - native).mean()),
                },
            )


def largest_deviation(mean: float, median: float, longest: float) -> float:
    """Largest standard deviation of times in [0, longest] with that mean and median.

    The variance is largest with mass only at 0, at the median and at the longest time. With mass b
    at the median, E[x^2] = mean * longest - b * median * (longest - median), and b has a lower
    bound because at most half of the mass lies on either side of the median.
    """
    low_side = (0.5 - mean / longest) / (1.0 - median / longest)  # at most half lies at 0
    high_side = (mean - 0.5 * longest) / median  # at most half lies at the longest
    at_median = max(low_side, high_side, 0.0)
    second = mean * longest - at_median * median * (longest - median)
    return math.sqrt(second - mean**2)


def rows_of_table_1(logs: Sequence[PreparedLog]) -> Iterator[claims.Row]:
    """Table 1 on the generated load, its impossible deviation, and the weeks of the trace."""
    table = DECLARED.of("Table 1, EGEE-like load")
    _, mean, deviation, median = map(float, table.line("interactive"))
    possible = largest_deviation(mean, median, SHORT_JOB_RUN_TIME)
    yield claims.row_of(
        *("Table 1, as printed", "interactive"),
        *("largest possible standard deviation of run times (s)", possible),
        judged=claims.Judgement(deviation <= possible, ""),
        words={"swapped": largest_deviation(median, mean, SHORT_JOB_RUN_TIME)},
    )
    statistics: tuple[Callable[[Any], Any], ...] = (len, np.mean, np.std, np.median)
    for job_class in ("interactive", "batch"):
        of_class = [log.interactive == (job_class == "interactive") for log in logs]
        times = [log.log.run_time[mine] for log, mine in zip(logs, of_class, strict=True)]
        for column, statistic in zip(table.columns, statistics, strict=True):
            draws = np.array([float(statistic(each)) for each in times])
            yield claims.row("Table 1, EGEE-like load", job_class, column, draws)
    weeks = (_PERIOD[1] - _PERIOD[0]).total_seconds() / (7 * DAY)
    yield claims.row_of(
        *("Table 1, as printed", "trace", "weeks from 25 Jul to 19 Oct 2006", weeks),
        judged=claims.Judgement(round(weeks) == 7, ""),
    )


_SHIPPED = ("reactive-grids", "non-markovian")
_RULES = {"FIFO": "fifo", "SJF": "sjf", "min(run + wait)": "min-run-wait"}
#: Index of the median among the predicted quantiles.
_MEDIAN = PARTS.index(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicted:
    """Predicted run times of one log's jobs, seconds, shape [n]."""

    seconds: FloatArray
    kind: str = "prediction"

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """The prediction of each job."""
        del time_limit, interactive
        return self.seconds


def estimate_figures(
    prepared: PreparedLog, networks: Mapping[str, Sequence[LearnedNetwork]], medians: ClassMedian
) -> dict[str, dict[str, float]]:
    """Rule or networks -> estimate -> J, mean over the networks."""
    predicted = np.maximum(quantiles_at_start(prepared)[:, _MEDIAN], 1.0)
    estimates: dict[str, RunTimeEstimate | None] = {
        "oracle": None,
        "EST": medians,
        "prediction": _Predicted(seconds=predicted),
        "limits": RequestedLimit(),
    }

    def figures(rule: str, nets: Sequence[LearnedNetwork | None]) -> dict[str, float]:
        found = {}
        for name, kind in estimates.items():
            tried = (Candidate(name=rule, network=each, estimates=kind) for each in nets)
            jobs = (trials.scheduled(each, prepared) for each in tried)
            found[name] = float(np.mean([trials.measures_of(each, (0, 0))["J"] for each in jobs]))
        return found

    by_rule = {name: figures(rule, [None]) for name, rule in _RULES.items()}
    return by_rule | {name: figures("", nets) for name, nets in networks.items()}


MEASURED_SEGMENTS = (17, 18, 19)
#: Segment before them, which provides the medians.
_EARLIER = 16
_CAPACITIES = (trials.PROCESSORS_OF_2011, trials.PROCESSORS_OF_LPC)


def _steps(asked: Asked) -> int:
    segments = len(MEASURED_SEGMENTS) * len(_CAPACITIES) * (asked.traces is not None)
    trainings = (len(LEARNED) + len(FORGETFUL)) * asked.effort.learners + len(AS_PRINTED)
    return len(LOADS) * asked.number_of_seeds() + segments + trainings * asked.effort.iterations


def _on_segments(
    effort: Effort, log: JobLog, networks: Mapping[str, Sequence[LearnedNetwork]], add: Add
) -> dict[int, trials.PairedTrial]:
    """Processors -> policies on the segments of LPC-EGEE."""
    found = {}
    for capacity in _CAPACITIES:
        earlier = trials.prepared_segments(log, [_EARLIER], capacity)[_EARLIER]
        logs = trials.prepared_segments(log, MEASURED_SEGMENTS, capacity, effort.jobs)
        policies = contenders(networks, medians_of(earlier), native=True)
        drop = effort.drop_of(trials.SEGMENT_DROP)
        trial = trials.run_trial(logs.values(), policies, drop, add)
        found[capacity] = trials.with_averages(trial, networks)
    return found


_STYLES = {
    trials.NATIVE: ("black", "-"),
    trials.FIFO: ("grey", "--"),
    trials.SJF: ("tab:purple", ":"),
    "NN-ORA": ("tab:blue", "-"),
    "NN-EST": ("tab:blue", "--"),
    "ESN-ORA": ("tab:orange", "-"),
    "ESN-EST": ("tab:orange", "--"),
}


def _draw_responsiveness(groups_shown: Mapping[str, trials.PairedTrial]) -> Any:
    titles = [*groups_shown, *["its least responsive jobs"] * len(groups_shown)]
    figure, axes = panels(titles, (4.5, 3.75), rows=2)
    for above, below, trial in zip(
        axes, axes[len(groups_shown) :], groups_shown.values(), strict=False
    ):
        for name, (colour, style) in _STYLES.items():
            if name in trial.schedules:
                values = np.sort(responsiveness(*trial.pooled(name, interactive=True)))
                part = 1.0 - np.arange(1, len(values) + 1) / len(values)
                for axis in (above, below):
                    axis.plot(values, part, style, color=colour, label=name)
        # from where the learned policies have half their responsiveness, upwards
        lowest = min(
            float((responsiveness(*trial.pooled(name, interactive=True)) > 0.5).mean())
            for name in LEARNED
        )
        below.set(xscale="log", xlim=(1e-3, 0.5), ylim=(max(lowest - 0.02, 0.0), 1.002))
    up = "fraction of interactive jobs with R > x"
    return finished(figure, axes, "responsiveness x", up, columns=7)


def run(asked: Asked) -> Outcome:
    """Train all networks and measure."""
    seeds, effort = range(asked.number_of_seeds()), asked.effort
    traces = asked.traces_or_less()
    log = None if traces is None else trials.read_lpc(traces)  # may fail: before the trainings
    segments: dict[int, trials.PairedTrial] = {}
    estimates: dict[str, dict[str, float]] = {}
    with asked.bar("training and simulating", _steps(asked)) as add:
        networks = learn(effort, ResultStore(asked.models, add))
        policies = contenders(networks, medians_of(*training_logs(effort)), native=False)
        groups, drop = {}, effort.drop_of(trials.SEGMENT_DROP)
        for load in LOADS:
            trial = trials.run_trial(generated(load, seeds, effort), policies, drop, add)
            groups[f"EGEE-like load {load}"] = trials.with_averages(trial, networks)
        if log is not None and traces is not None:
            segments = _on_segments(effort, log, networks, add)
            past = trials.prepared_segments(log, [_EARLIER], trials.PROCESSORS_OF_2011)[_EARLIER]
            tried = {name: networks[name] for name in LEARNED}
            tried |= {f"shipped {name}": [import_model(asked.shipped(name))] for name in _SHIPPED}
            crowded = crowded_segment(traces, effort)
            estimates = estimate_figures(crowded, tried, medians_of(past))
    on_lpc = "LPC-EGEE segments 17 to 19, {} processors"
    if segments:
        capacity = trials.PROCESSORS_OF_2011
        shown = groups[on_lpc.format(capacity)] = segments[capacity]
    rows = list(rows_of_table_1(generated(LOADS[0], seeds, effort)))
    for group, trial in groups.items():
        rows += [*rows_of_tables(group, trial), *rows_of_sentences(group, trial)]
    if segments:  # only on its own machine is the native scheduler compared fairly
        capacity = trials.PROCESSORS_OF_LPC
        rows += rows_on_native(on_lpc.format(capacity), segments[capacity])
    found = DECLARED.claims(rows)
    memory = [each for each in found if each.cell.group.startswith("Memory")]
    across = "difference of mean R of the worst 5 % interactive jobs"
    drawings = {
        "fig-2-responsiveness.png": partial(_draw_responsiveness, groups),
        "fig-3-queuing-delay.png": partial(cumulative_waits, groups, _STYLES),
        "memory.png": partial(interval_panels, memory, across, at=0.0),
    }
    if segments:
        places = {
            f"LPC-EGEE segment {number}": (shown, place)
            for place, number in enumerate(MEASURED_SEGMENTS)
        }
        drawings["fig-4-fairness.png"] = partial(fairness_gaps, places, _STYLES)
    return Outcome(claims=found, seeds=seeds, facts={"estimates": estimates}, drawings=drawings)
