"""CMA-ES over settings of slurm.conf inside the compiled simulator (Hansen and Ostermeier 2001).

Candidates are compared on stretches of the past of a log, all on the same ones; the best few on
more of them; of the best one every change is undone that the gain does not need. Simple rules
and a reserve are measured with the result, all on jobs that no search saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.learning.evaluation.recorded_replay import UNCOUNTED
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.training_load import TrainingLoad, log_window, training_jobs
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.measure.intervals import Blocks, verdict, widened
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PAST_WORK, PreparedLog
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import MINUTE, FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import service_of
from slurm_rl_plugin.utility.time_utility import bounded_slowdown
from slurm_rl_plugin.what_if.replay import FEWEST_JOBS, ReplayedPair, ReplayedVariant
from slurm_rl_plugin.what_if.tuning.space import TuningSpace, space_of, words_of
from slurm_rl_plugin.what_if.variant import AS_IT_IS, HOOK, RESERVE

#: Part of the service that a setting may deliver to the wrong account on the past beyond what the
#: cluster as it is does, in the mean of the stretches on which anybody waits: of a single one of
#: some thousand jobs it is mostly chance, and without waiting jobs no order delivers any wrongly.
MISDELIVERED_MORE = 0.01
#: How many times the longest wait of the cluster as it is a setting's may be there.
LONGEST_WAITS = 1.5
#: What a unit of misdelivery beyond that costs, and a longest wait ten times beyond: so much that
#: hardly any such setting is taken. A mean hides who starves until the load grows.
_PENALTY, _STARVING = 1000.0, 10.0
#: Stretches are tried with arrivals so much denser too: settings must hold where a load grows.
DENSER = 1.15
#: Part of the gain that a change must contribute, or it is undone.
WORTH = 0.03
#: Parts of a stretch at its ends that are simulated and not counted.
_UNCOUNTED = (0.1, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """How long is searched, and on how much."""

    generations: int = 15
    population: int = 10
    step: float = 0.25  #: first standard deviation
    stretches: int = 2  #: on which candidates are compared
    jobs: int = 5_000  #: of each stretch
    checks: int = 5  #: stretches on which the finalists are compared
    finalists: int = 5
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTask:
    """What every candidate is tried on."""

    cluster: DescribedCluster
    loads: tuple[TrainingLoad, ...]  #: stretches of the past
    weights: RewardWeights
    #: misdelivered part of the service, and longest wait in seconds, a minute at least, of the
    #: cluster as it is on each load
    guarded: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(
        cls,
        cluster: DescribedCluster,
        parts: Sequence[PreparedLog],
        settings: SimulationSettings,
        weights: RewardWeights,
    ) -> TuningTask:
        """The task on some parts of a log.

        Objectives are relative to the longest waits and slowdowns of the cluster as it is, not of
        simple orders as in training: that is a constant to every candidate.
        """
        loads = tuple(_load(each, settings) for each in parts)
        own = Candidate(name=SITES_OWN)
        guarded = tuple(_guarded(load, _starts(load, own)) for load in loads)
        return cls(cluster=cluster, loads=loads, weights=weights, guarded=guarded)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCluster:
    """What a search found."""

    #: key of slurm.conf -> value; none where nothing is better than the cluster as it is
    changes: dict[str, str]
    before: float  #: objective on the stretches of the finalists
    after: float  #: objective on the stretches of the finalists
    curve: tuple[float, ...]  #: best objective of each generation
    tried: int


def _load(prepared: PreparedLog, settings: SimulationSettings) -> TrainingLoad:
    workload = prepared.workload(RequestedLimit())
    own = Candidate(name=SITES_OWN)
    start = starts_under(own, prepared, workload, settings.without_hook)
    drop = int(len(start) * _UNCOUNTED[0]), int(len(start) * _UNCOUNTED[1])
    counted = slice(drop[0], len(start) - drop[1])
    wait, batch = (start - workload.submit)[counted], ~prepared.interactive[counted]
    slowdown = bounded_slowdown(wait, prepared.log.run_time[counted])
    return TrainingLoad(
        prepared=prepared,
        workload=workload,
        settings=settings,
        fifo_max_wait=float(wait.max()),
        sjf_batch_wait=float(wait[batch].mean()) if batch.any() else 0.0,
        saf_slowdown=float(slowdown.mean()),
        site_wait=start - workload.submit,
        drop=drop,
    )


def _starts(load: TrainingLoad, candidate: Candidate) -> FloatArray:
    settings = load.settings
    if candidate.name == SITES_OWN:  # only a reserve acts on it
        settings = replace(settings, influence=math.inf, refresh=0.0, starvation=math.inf)
    return starts_under(candidate, load.prepared, load.workload, settings)


def _guarded(load: TrainingLoad, start: FloatArray) -> tuple[float, float]:
    """Misdelivered part and longest wait of the counted jobs; less than a minute is no wait.

    Without configured shares none is misdelivered: past work promises nothing.
    """
    counted = np.zeros(len(start), dtype=np.bool_)
    counted[load.drop[0] : len(start) - load.drop[1]] = True
    schedule = schedule_of(load.prepared, start, load.settings)
    longest = max(float(schedule.wait[counted].max()), MINUTE)
    if load.prepared.shares_from == PAST_WORK:
        return 0.0, longest
    return service_of(schedule, counted).misdelivered, longest


def objective_of(task: TuningTask, changes: dict[str, str], reserve: int = 0) -> float:
    """The site's objective of some changes of slurm.conf, mean over the loads; less their costs.

    `reserve` CPUs are kept from batch jobs at most.
    """
    machine = task.cluster.machine
    if words := words_of(changes):
        machine = changed(task.cluster, words).machine
    loads = []
    for load in task.loads:
        settings = load.settings
        if reserve:
            limit = ClassLimit(most=float(reserve))
            settings = replace(settings, reserve=reserve, class_limit=limit)
        prepared = replace(load.prepared, machine=machine)
        loads.append(replace(load, prepared=prepared, settings=settings))
    return bounded_objective(replace(task, loads=tuple(loads)), Candidate(name=SITES_OWN))


def candidate_objective(task: TuningTask, candidate: Candidate) -> float:
    """Mean objective of an order, whatever it misdelivers and however long the longest wait."""
    values = [load.objective(_starts(load, candidate), task.weights) for load in task.loads]
    return float(np.mean(values))


def bounded_objective(task: TuningTask, candidate: Candidate) -> float:
    """Mean objective of an order over the loads, less for what it may not cost.

    Misdelivery is bounded in the mean over the loads with a queue, the longest wait on each.
    """
    values, lost = [], []
    for load, (misdelivered, longest) in zip(task.loads, task.guarded, strict=True):
        start = _starts(load, candidate)
        now = _guarded(load, start)
        if longest > MINUTE:
            lost.append(now[0] - misdelivered)
        starving = max(math.log10(now[1] / (LONGEST_WAITS * longest)), 0.0)
        values.append(load.objective(start, task.weights) - _STARVING * starving)
    unfair = max(float(np.mean(lost)) - MISDELIVERED_MORE, 0.0) if lost else 0.0
    return float(np.mean(values)) - _PENALTY * unfair


def past_of(prepared: PreparedLog) -> PreparedLog:
    """The first 60 % of a log's time; all choices rest on it alone.

    Raises:
        ConfigurationError: nothing could be chosen on it, or what was chosen not be judged.
    """
    jobs, first = len(prepared.log), training_jobs(prepared)
    rest = jobs - int(jobs * UNCOUNTED[1]) - first
    if first < 1 or rest < FEWEST_JOBS:
        raise ConfigurationError(
            f"too few jobs to tune on: {first} came in the first 60 % of the log's time, on which "
            f"settings are chosen, and {max(rest, 0)} count of the rest (1 and {FEWEST_JOBS} at "
            "least): give a longer log."
        )
    return log_window(prepared, 0, first)


def stretches_of(past: PreparedLog, stretches: int, most: int) -> list[PreparedLog]:
    """Stretches of the past spread evenly, or all of it where it is no longer; and denser ones."""
    jobs, parts = len(past.log), [past]
    if jobs > stretches * most:
        firsts = np.linspace(0, jobs - most, stretches).astype(np.int64)
        parts = [log_window(past, int(first), most) for first in firsts]
    return [*parts, *(denser(part) for part in parts)]


def denser(part: PreparedLog) -> PreparedLog:
    """A part of a log with arrivals DENSER times as dense."""
    return replace(part, log=scale_load(part.log, DENSER))


def tune(
    short: TuningTask,
    checks: TuningTask,
    plan: TuningPlan,
    progress: Callable[[int, float], None],
    *,
    checkpoint: Path | None = None,
    log_key: str = "",
) -> TunedCluster:
    """Search settings that serve the goals better than those of the cluster as it is.

    Args:
        checks: the same on more of them.
        progress: called after each generation with its number and the best gain so far.
        checkpoint: keeps the progress; an interrupted search goes on from there. It is left for
            the caller to remove.
        log_key: names the log and all else that shapes the search.
    """
    space = space_of(short.cluster.machine)
    key = {"plan": asdict(plan), "log": log_key, "start": space.start.tolist()}
    kept = Checkpoint(checkpoint, key)
    base = objective_of(short, {})

    def values_of(generation: int, tried: list[dict[str, str]]) -> list[float]:
        if generation >= len(kept.steps):
            kept.add(side_by_side(partial(objective_of, short), tried))
        return list(kept.steps[generation])

    found, curve = _searched(space, plan, values_of, lambda step, best: progress(step, best - base))
    best = sorted(found.values(), key=lambda each: -each[0])[: plan.finalists]
    finalists = [changes for value, changes in best if value > base]
    values = side_by_side(partial(objective_of, checks), finalists)
    before = objective_of(checks, {})
    after, changes = max(
        zip(values, finalists, strict=True), key=lambda each: each[0], default=(before, {})
    )
    if after > before:
        fewer = _needed(short, changes, base)
        value = objective_of(checks, fewer)
        after, changes = (value, fewer) if value > before else (after, changes)
    else:
        after, changes = before, {}
    return TunedCluster(
        changes=changes,
        before=before,
        after=after,
        curve=tuple(value - base for value in curve),
        tried=plan.generations * plan.population,
    )


_Found = dict[str, tuple[float, dict[str, str]]]


def _searched(
    space: TuningSpace,
    plan: TuningPlan,
    values_of: Callable[[int, list[dict[str, str]]], list[float]],
    progress: Callable[[int, float], None],
) -> tuple[_Found, list[float]]:
    """Words of every setting tried -> its objective and changes; the best of each generation."""
    from cmaes import CMA  # noqa: PLC0415 - brings scipy.stats

    evolution = CMA(
        mean=space.start,
        sigma=plan.step,
        bounds=np.tile([0.0, 1.0], (space.size, 1)),
        seed=plan.seed,
        population_size=plan.population,
    )
    found: _Found = {}
    curve: list[float] = []
    for generation in range(plan.generations):
        points = [evolution.ask() for _ in range(plan.population)]
        tried = [space.changes(point) for point in points]
        values = values_of(generation, tried)
        evolution.tell([(point, -value) for point, value in zip(points, values, strict=True)])
        for changes, value in zip(tried, values, strict=True):
            found[words_of(changes)] = (value, changes)
        curve.append(max(value for value, _ in found.values()))
        progress(generation + 1, curve[-1])
    return found, curve


def _needed(task: TuningTask, changes: dict[str, str], before: float) -> dict[str, str]:
    """Take back what the gain over the cluster as it is does not need, the last keys first."""
    after = objective_of(task, changes)
    least = after - WORTH * max(after - before, 0.0)
    left = dict(changes)
    for key in reversed(changes):
        fewer = {name: value for name, value in left.items() if name != key}
        if fewer and objective_of(task, fewer) >= least:
            left = fewer
    return left


#: What the choices are called.
TUNED, BY_RULE, WITH_RESERVE = "tuned", "rule", "tuned with a reserve"
#: Simple rules that our hook can order by.
_RULES = tuple(rule for rule in NODE_HEURISTICS if rule != "fifo")
#: Parts of the cluster's CPUs that are tried as a reserve.
_RESERVES = (0.02, 0.05, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An order that the past speaks for.

    `words` are of a variant, none for the cluster as it is; `objective` is on the stretches of the
    finalists; `rule` is of our hook, "" where the site's own order stays.
    """

    words: str
    objective: float
    rule: str = ""


def choices_of(
    tuned: TunedCluster, short: TuningTask, checks: TuningTask, processors: int
) -> dict[str, Choice]:
    """Name -> what was chosen; the cluster as it is among them.

    Rules and reserves are compared on `short`, and each choice is valued on `checks`.
    """
    found = {AS_IT_IS: Choice(words="", objective=tuned.before)}
    words = words_of(tuned.changes)
    if words:
        found[TUNED] = Choice(words=words, objective=tuned.after)
    rule = _best_of(_RULES, bounded_objective, short)
    worth = bounded_objective(checks, Candidate(name=rule))
    found[BY_RULE] = Choice(words=f"{HOOK} {rule}", objective=worth, rule=rule)
    if reserve := _reserve(tuned, short, processors):
        both = "; ".join(filter(None, (words, f"{RESERVE} cpu={reserve}")))
        worth = objective_of(checks, dict(tuned.changes), reserve)
        found[WITH_RESERVE] = Choice(words=both, objective=worth)
    return found


def best_rule(task: TuningTask) -> str:
    """The simple rule that serves the goals best, whatever it misdelivers or lets wait.

    A learned order is compared with it; it is not advised.
    """
    return _best_of(NODE_HEURISTICS, candidate_objective, task)


def _best_of(
    rules: Sequence[str], objective: Callable[[TuningTask, Candidate], float], task: TuningTask
) -> str:
    values = side_by_side(lambda rule: objective(task, Candidate(name=rule)), rules)
    return rules[int(np.argmax(values))]


def _reserve(tuned: TunedCluster, short: TuningTask, processors: int) -> int:
    """CPUs that are best kept from batch jobs with the tuned settings on the past; 0 for none."""
    sizes = sorted({max(round(part * processors), 1) for part in _RESERVES})
    changes = dict(tuned.changes)
    values = {size: objective_of(short, changes, size) for size in (0, *sizes)}
    best = max(values, key=values.__getitem__)
    worth = WORTH * abs(values[0] - objective_of(short, {}))
    return best if values[best] > values[0] + worth else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveGain:
    """What a variant gains over the cluster as it is.

    `ci95` is None where there are too few stretches.
    """

    gain: float
    ci95: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Better, worse or inconclusive."""
        return verdict(self.ci95, more_is_better=True)


def gain_of(pair: ReplayedPair, blocks: Blocks, weights: RewardWeights) -> ObjectiveGain:
    """Gain in time utility, responsiveness, fairness and slowdown, each by its weight.

    The terms of the longest wait and of what a reserve costs batch jobs are left out: draws of what
    happened know no longer wait, and both are shown. `blocks` are over the counted jobs.
    """
    every = np.arange(len(pair.counted))
    sides = [
        _columns(pair.base, pair.places_before, weights),
        _columns(pair.variant, pair.places_after, weights),
    ]
    gain = float(_gain(np.array([[each.mean() for each in side] for side in sides]), weights))
    draws = _gain(np.array([[blocks.means(x, every) for x in side] for side in sides]), weights)
    return ObjectiveGain(gain=gain, ci95=widened(np.atleast_1d(draws), gain, blocks.count))


def _columns(
    replayed: ReplayedVariant, place: np.ndarray, weights: RewardWeights
) -> tuple[FloatArray, FloatArray]:
    found = replayed.measures
    value = (
        weights.time_utility * found.time_utility
        + weights.responsiveness * found.responsiveness
        + weights.fairness * found.fairness
    )
    return value[place], found.bounded_slowdown[place]


def _gain(sides: FloatArray, weights: RewardWeights) -> FloatArray:
    """Of value and slowdown before and after, shape [2, 2, ...]."""
    (value, slowdown), (value_after, slowdown_after) = sides
    found: FloatArray = (value_after - value) - weights.slowdown * np.log10(
        slowdown_after / slowdown
    )
    return found


_PARAMETERS = "SchedulerParameters"


def conf_lines(cluster: DescribedCluster, changes: Mapping[str, str]) -> list[str]:
    """A comment for each key of slurm.conf that changes, with what it is now before it."""
    after = changed(cluster, words_of(changes)).said.settings
    lines: list[str] = []
    keys = [key for key in changes if not key.islower()]
    if len(keys) < len(changes):
        keys.append(_PARAMETERS)
    for key in keys:
        now = cluster.said.settings.get(key.lower())
        lines.append(f"# now: {key}={now.text}" if now is not None else f"# now: no {key}")
        lines.append(f"# {key}={after[key.lower()].text}")
    return lines


def policy_lines(rule: str) -> list[str]:
    """Comments with lines of our own file that let the hook order by a rule, or why it cannot."""
    named = named_policy(rule)
    if named is not None and named.needs_log:
        return [f"# The daemon cannot order by {rule}: {named.needs_log}."]
    return ["# [policy]", f'# model = "{rule}"']
