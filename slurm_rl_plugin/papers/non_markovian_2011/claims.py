"""Tables 1 to 3 of the 2011 paper and the sentences that rest on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.fitted_q import FittedQSettings, train_fitted_q
from slurm_rl_plugin.papers.reactive_grids_2008.load import medians_of, training_loads
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Declared,
    Judgement,
    Printed,
    Row,
    measure,
    row,
)
from slurm_rl_plugin.papers.study.result_store import (
    LearnedNetwork,
    LearningTask,
    Loads,
    ResultStore,
)
from slurm_rl_plugin.papers.study.study import Effort
from slurm_rl_plugin.papers.study.trials import (
    Contender,
    PairedTrial,
    figures_by_learner,
    measure_over_learners,
)
from slurm_rl_plugin.policies.echo_state import ReservoirSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, SHORT_JOB_RUN_TIME

NATIVE, FIFO, SJF = "native", "FIFO", "SJF oracle"
#: The learned policies: feed-forward (NN) or echo state network (ESN), run times known (ORA) or
#: taken to be the median of the class (EST).
LEARNED = ("NN-ORA", "NN-EST", "ESN-ORA", "ESN-EST")
#: Behind the name of a learned policy: by the reward as printed, not by the difference reward.
PRINTED = ", as printed"
AS_PRINTED = tuple(f"{name}{PRINTED}" for name in LEARNED)
#: Controls: the same echo state network, its reservoir forgetting at once.
FORGETFUL = ("ESN0-ORA", "ESN0-EST")
#: Policies that stand beside the learned ones in every claim.
BASELINES = (
    NATIVE,
    FIFO,
    SJF,
    "interactive first",
    "min(run + wait) EST",
    "SJF oracle, 4 held",
)

JOBS, PROCESSORS = 9500, 81
SHARES = {"vo0": 0.53, "vo1": 0.19, "vo2": 0.10, "vo3": 0.18}
#: Loads of the generator that are measured: a light one, where queues are rare (what Table 1 prints
#: would fill the machine to .29), and one with the queues that the paper's native figures speak of.
LOADS = (0.44, 0.7)
#: Load to learn on: without a queue there is nothing to learn.
_TRAINING_LOAD = 0.7
_TRAINING_SEED, _VALIDATION_SEED = 1000, 2000
#: Without recurrent weights the echo state network sees the present alone.
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
    """Fitted Q for a learned policy, on logs of seeds 1000 and above, chosen on 2000 and above.

    Args:
        name: one of LEARNED, FORGETFUL or AS_PRINTED.
    """
    regressor, estimates = name.removesuffix(PRINTED).split("-")
    settings = replace(_SETTINGS[regressor], iterations=effort.iterations, seed=learner)
    if name in AS_PRINTED:
        settings = replace(settings, reward="literal")

    def loads() -> Loads:
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
        train=train_fitted_q,
        sources=[f"egee load={_TRAINING_LOAD} jobs={effort.jobs_of(JOBS)} {counts} {estimates}"],
        loads=loads,
        steps=effort.iterations,
    )


def learn(effort: Effort, store: ResultStore) -> dict[str, list[LearnedNetwork]]:
    """Each of LEARNED and FORGETFUL -> its networks, one a learner; of AS_PRINTED one."""
    return {
        name: [
            store.network(learning_task(name, learner, effort)).network
            for learner in range(1, (1 if name in AS_PRINTED else effort.learners) + 1)
        ]
        for name in (*LEARNED, *FORGETFUL, *AS_PRINTED)
    }


def contenders(
    networks: Mapping[str, Sequence[LearnedNetwork]], medians: ClassMedian, *, native: bool
) -> dict[str, Contender]:
    """The policies of an experiment; learned ones as "<name> <learner>".

    Args:
        networks: of each learned policy.
        medians: of the classes' run times on logs that are not measured, for EST.
        native: whether the logs record starts.
    """
    found = {NATIVE: Contender(rule="native")} if native else {}
    found |= {
        FIFO: Contender(rule="fifo"),
        "interactive first": Contender(rule="interactive-first"),
        SJF: Contender(rule="sjf"),
        "min(run + wait) EST": Contender(rule="min-run-wait", estimates=medians),
        "SJF oracle, 4 held": Contender(rule="sjf", reserve=4),
    }
    for name, learned in networks.items():
        estimates = medians if "EST" in name else None
        for learner, network in enumerate(learned, start=1):
            found[f"{name} {learner}"] = Contender(network=network, estimates=estimates)
    return found


DECLARED = Declared(__package__)
#: What sentences of section 5 say is at least .90 under every learned policy.
_BOUNDS = (
    ("Section 5.1", "interactive R"),
    ("Fig. 2", "interactive R > 0.9"),
    ("Fig. 3", "interactive within 120 s"),
)
#: Run times known, or the median of the class.
_ESTIMATES = ("ORA", "EST")
#: "25 Jul 2006 to 19 Oct 2006", said to be more than seven weeks.
_PERIOD = (date(2006, 7, 25), date(2006, 10, 19))


def rows_of_tables(group: str, trial: PairedTrial) -> Iterator[Row]:
    """Every cell of Tables 2 and 3 whose policy took part.

    Args:
        trial: with an entry for each of LEARNED, perhaps of AS_PRINTED.
    """
    for table in ("Table 2", "Table 3"):
        for printed in (NATIVE, *LEARNED):
            for policy in (printed, f"{printed}{PRINTED}"):
                if policy in trial.measures:
                    for column in DECLARED.of(f"{table}, *").columns:
                        yield _row(f"{table}, {group}", trial, policy, column)


def _row(group: str, trial: PairedTrial, policy: str, column: str) -> Row:
    fifo, sjf = (float(trial.figure(each, column).mean()) for each in (FIFO, SJF))
    values, means = trial.figure(policy, column), trial.means(column, BASELINES)
    return row(group, policy, column, values, baselines=means, words={"fifo": fifo, "sjf": sjf})


def rows_of_sentences(group: str, trial: PairedTrial) -> Iterator[Row]:
    """What section 5 says in words, on one load.

    Args:
        trial: with an entry for each of LEARNED.
    """
    for section, column in _BOUNDS:
        for policy in LEARNED:
            yield _row(f"{section}, {group}", trial, policy, column)
    for network in ("NN", "ESN"):
        pair = (f"{network}-EST", f"{network}-ORA")
        nothing = Printed(value=0.0, unit=0.01, text="0")
        yield _difference(f"Section 5.1, {group}", trial, pair, ("R", "R"), printed=nothing)
    for estimates in _ESTIMATES:
        yield memory_row(group, trial, estimates, "NN")
        yield memory_row(group, trial, estimates, "ESN0")
        yield _wait_row(group, trial, estimates)
    if NATIVE in trial.measures:
        yield from rows_on_native(group, trial)


def memory_row(group: str, trial: PairedTrial, estimates: str, other: str) -> Row:
    """What the echo state network gives the 5 % least responsive interactive jobs.

    Args:
        estimates: "ORA" or "EST".
        other: "NN" as in the paper, or "ESN0", the same network without memory.
    """
    one, two = pair = (f"ESN-{estimates}", f"{other}-{estimates}")
    column = "worst 5 %"
    words = {"one": trial.figure(one, column).mean(), "two": trial.figure(two, column).mean()}
    columns = (column, "R of the worst 5 % of the interactive jobs")
    return _difference(f"Memory, {group}", trial, pair, columns, words=words)


def _difference(
    group: str, trial: PairedTrial, pair: tuple[str, str], columns: tuple[str, str], **more: Any
) -> Row:
    """The paired difference of two policies over learners and logs; its column, and as shown."""
    one, two = (figures_by_learner(trial, name, columns[0]) for name in pair)
    return Row(
        cell=Cell(group, " - ".join(pair), columns[1]),
        measured=measure_over_learners(one - two),
        logs=len(trial.schedules[FIFO]),
        baselines=trial.means(columns[0], BASELINES),
        **more,
    )


def _wait_row(group: str, trial: PairedTrial, estimates: str) -> Row:
    """Mean wait of interactive jobs, echo state over feed-forward network, as in Table 3."""
    column, table = "interactive mean wait", DECLARED.of("Table 3, *")
    names = [f"{network}-{estimates}" for network in ("ESN", "NN")]
    echo, forward = (float(table.text(Cell(group, name, column)) or "nan") for name in names)
    return row(
        f"Table 3, {group}",
        " / ".join(names),
        column,
        trial.figure(names[0], column) / np.maximum(trial.figure(names[1], column), 1.0),
        printed=Printed.rounded(echo / forward, 2),
        baselines=trial.means(column, BASELINES),
    )


def rows_on_native(group: str, trial: PairedTrial) -> Iterator[Row]:
    """What section 5 says of the native scheduler, on one load that records its starts."""
    for policy in LEARNED:
        for column, section in (
            ("interactive R", "Section 5.1"),
            ("batch R", "Section 5.1"),
            ("F", "Fig. 4"),
        ):
            means = trial.means(column, BASELINES)
            native, over = trial.figure(NATIVE, column), f"{policy} - {NATIVE}"
            yield row(
                *(f"{section}, {group}", over, column, trial.figure(policy, column) - native),
                baselines={
                    f"{name} - {NATIVE}": each - means[NATIVE] for name, each in means.items()
                },
                words={
                    "policy": policy,
                    "fifo": float((trial.figure(FIFO, column) - native).mean()),
                },
            )


def largest_deviation(mean: float, median: float, longest: float) -> float:
    """Largest standard deviation of times in [0, longest] with that mean and median.

    The variance is largest with mass at 0, at the median and at the longest time only; let b be
    the mass at the median. Then E[x^2] = mean * longest - b * median * (longest - median), and at
    most half of the mass on either side of the median keeps b above a bound.

    Args:
        mean: seconds, in (0, longest).
        median: seconds, in (0, longest).
        longest: seconds.
    """
    low_side = (0.5 - mean / longest) / (1.0 - median / longest)  # at most half lies at 0
    high_side = (mean - 0.5 * longest) / median  # at most half lies at the longest
    at_median = max(low_side, high_side, 0.0)
    second = mean * longest - at_median * median * (longest - median)
    return math.sqrt(second - mean**2)


def rows_of_table_1(logs: Sequence[PreparedLog]) -> Iterator[Row]:
    """Every figure of Table 1 on the generated load, its deviation, and the weeks of the trace."""
    table = DECLARED.of("Table 1, EGEE-like load")
    _, mean, deviation, median = map(float, table.line("interactive"))
    possible = largest_deviation(mean, median, SHORT_JOB_RUN_TIME)
    swapped = largest_deviation(median, mean, SHORT_JOB_RUN_TIME)
    because = (
        f"physically impossible: times in [0, 900] s with mean 108 and median 160 deviate by at "
        f"most {possible:.1f} s; with mean and median swapped up to {swapped:.0f} s are possible"
    )
    yield _as_printed(
        *("interactive", "largest possible standard deviation of run times (s)", possible),
        Judgement(deviation <= possible, because),
    )
    for job_class in ("interactive", "batch"):
        for column in table.columns:
            draws = np.array([_statistic(log, job_class, column) for log in logs])
            yield row("Table 1, EGEE-like load", job_class, column, draws)
    weeks = (_PERIOD[1] - _PERIOD[0]).total_seconds() / (7 * DAY)
    yield _as_printed(
        *("trace", "weeks from 25 Jul to 19 Oct 2006", weeks),
        Judgement(round(weeks) == 7, f"the dates lie {weeks:.1f} weeks apart"),
    )


def _as_printed(policy: str, column: str, value: float, judged: Judgement) -> Row:
    cell = Cell("Table 1, as printed", policy, column)
    return Row(cell=cell, measured=measure(np.array([value])), judged=judged)


def _statistic(log: PreparedLog, job_class: str, statistic: str) -> float:
    times = log.log.run_time[log.interactive == (job_class == "interactive")]
    if statistic == "jobs":
        return float(len(times))
    if statistic == "standard deviation of run times (s)":
        return float(times.std())
    return float(times.mean() if statistic.startswith("mean") else np.median(times))
