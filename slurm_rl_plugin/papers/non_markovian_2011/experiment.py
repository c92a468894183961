"""The 2011 paper, "Non-Markovian Reinforcement Learning for Reactive Grid scheduling", run again.

Fitted Q iteration with a feed-forward and with an echo state network, run times known (ORA) or the
median of their class (EST), trained on generated logs of seeds 1000 and above and measured on seeds
0 to N - 1 and on segments of LPC-EGEE, which stand in for the log of the LAL site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.papers.non_markovian_2011.claims import (
    claims_of_sentences,
    claims_of_tables,
    claims_on_native,
)
from slurm_rl_plugin.papers.non_markovian_2011.load import (
    LOADS,
    contenders,
    generated,
    learn,
    training_logs,
)
from slurm_rl_plugin.papers.non_markovian_2011.run_time_estimates import (
    EstimateFigures,
    estimate_figures,
)
from slurm_rl_plugin.papers.non_markovian_2011.tables import AS_PRINTED, FORGETFUL, LEARNED
from slurm_rl_plugin.papers.non_markovian_2011.workload import claims_of_table_1
from slurm_rl_plugin.papers.reactive_grids_2008.load import medians_of
from slurm_rl_plugin.papers.study.claims import Claim
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.learner_average import with_averages
from slurm_rl_plugin.papers.study.lpc_segments import (
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    prepared_segments,
    read_lpc,
)
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial, run_trial
from slurm_rl_plugin.papers.study.result_store import LearnedNetwork, ResultStore

MEASURED_SEGMENTS = (17, 18, 19)
#: Segment before them, from which a site would know the medians.
_EARLIER = 16
#: The first and last jobs are not counted (2011, section 4.1).
_DROP = (500, 500)
_CAPACITIES = (PROCESSORS_OF_2011, PROCESSORS_OF_LPC)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonMarkovian:
    """Claims, and the trials that they rest on.

    Attributes:
        claims: of every table, figure and sentence.
        generated: name of a generated load -> policies on it.
        segments: processors -> policies on the segments of LPC-EGEE; empty without traces.
        estimates: J of each policy under each estimate on LPC-D; empty without traces.
    """

    claims: list[Claim]
    generated: Mapping[str, PairedTrial]
    segments: Mapping[int, PairedTrial]
    estimates: EstimateFigures


def steps(plan: Plan) -> int:
    """Simulated logs and iterations of fitted Q, for a progress bar."""
    segments = len(MEASURED_SEGMENTS) * len(_CAPACITIES) * (plan.traces is not None)
    trainings = (len(LEARNED) + len(FORGETFUL)) * plan.effort.learners + len(AS_PRINTED)
    return len(LOADS) * plan.seeds + segments + trainings * plan.effort.iterations


def reproduce(
    plan: Plan,
    store: ResultStore,
    shipped: Callable[[str], Path],
    after_log: Callable[[], None],
) -> NonMarkovian:
    """Train, simulate and judge.

    Args:
        plan: what to run.
        store: of trained networks.
        shipped: gives the file of a shipped model by its name.
        after_log: called after each simulated log.

    Raises:
        ConfigurationError: the folder of traces does not hold LPC-EGEE.
        AccountingLogError: LPC-EGEE cannot be read.
    """
    log = None if plan.traces is None else read_lpc(plan.traces)  # may fail: before the trainings
    networks = learn(plan.effort, store)
    loads = {
        f"EGEE-like load {load}": _generated(plan, load, networks, after_log) for load in LOADS
    }
    segments = {} if log is None else _segments(plan, log, networks, after_log)
    groups = dict(loads)
    if segments:
        groups[_group(PROCESSORS_OF_2011)] = segments[PROCESSORS_OF_2011]
    claims = list(claims_of_table_1(generated(LOADS[0], range(plan.seeds), plan.effort)))
    for group, trial in groups.items():
        claims += [*claims_of_tables(group, trial), *claims_of_sentences(group, trial)]
    if segments:  # the native scheduler had its own machine: only there it is compared fairly
        machine = PROCESSORS_OF_LPC
        claims += claims_on_native(_group(machine), segments[machine])
    estimates: EstimateFigures = {}
    if log is not None and plan.traces is not None:
        past = prepared_segments(log, [_EARLIER], PROCESSORS_OF_2011)[_EARLIER]
        learned = {name: networks[name] for name in LEARNED}
        estimates = estimate_figures(plan, learned, shipped, medians_of(past))
    return NonMarkovian(
        claims=[_credited(claim) for claim in claims],
        generated=loads,
        segments=segments,
        estimates=estimates,
    )


def _credited(claim: Claim) -> Claim:
    """Mark the claim as "ours" if its networks learned by the difference reward."""
    policies = claim.cell.policy.replace(" / ", " - ").split(" - ")
    ours = any(policy in LEARNED for policy in policies)
    return replace(claim, algorithm="ours") if ours else claim


def _group(capacity: int) -> str:
    return f"LPC-EGEE segments 17 to 19, {capacity} processors"


def _generated(
    plan: Plan,
    load: float,
    networks: Mapping[str, Sequence[LearnedNetwork]],
    after_log: Callable[[], None],
) -> PairedTrial:
    medians = medians_of(*training_logs(plan.effort))
    trial = run_trial(
        generated(load, range(plan.seeds), plan.effort),
        contenders(networks, medians, native=False),
        plan.effort.drop_of(_DROP),
        after_log,
    )
    return with_averages(trial, networks)


def _segments(
    plan: Plan,
    log: JobLog,
    networks: Mapping[str, Sequence[LearnedNetwork]],
    after_log: Callable[[], None],
) -> dict[int, PairedTrial]:
    found = {}
    for capacity in _CAPACITIES:
        earlier = prepared_segments(log, [_EARLIER], capacity)[_EARLIER]
        logs = prepared_segments(log, MEASURED_SEGMENTS, capacity, plan.effort.jobs)
        policies = contenders(networks, medians_of(earlier), native=True)
        drop = plan.effort.drop_of(SEGMENT_DROP)
        found[capacity] = with_averages(
            run_trial(logs.values(), policies, drop, after_log), networks
        )
    return found
