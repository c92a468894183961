"""The loads of the 2011 paper, the policies tried on them and what the networks learn on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.fitted_q import FittedQSettings, train_fitted_q
from slurm_rl_plugin.papers.reactive_grids_2008.load import medians_of, training_loads
from slurm_rl_plugin.papers.study.result_store import (
    LearnedNetwork,
    LearningTask,
    Loads,
    ResultStore,
)
from slurm_rl_plugin.papers.study.study import Effort
from slurm_rl_plugin.papers.study.trials import Contender
from slurm_rl_plugin.policies.echo_state import ReservoirSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

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
        learner: seed of the training.
        effort: how many logs and iterations.
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
