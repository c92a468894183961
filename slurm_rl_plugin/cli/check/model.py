"""Checks of `slurm-rl check` on the model: its digest, its goals, its time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.cli.assembly.hook import LoadedPolicy, load_policy
from slurm_rl_plugin.cli.benchmark.drawn_queue import queue_beside
from slurm_rl_plugin.cli.look.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import PolicyError

#: Waiting jobs that a decision is tried on at least.
FEWEST_JOBS = 1000
_REPEATS = 3


def model_of(
    configuration: Configuration, look: QueueLook | None = None, jobs: int | None = None
) -> Iterator[Check]:
    """Whether the model can be used, was trained for the site's goals, and is quick enough.

    Args:
        configuration: of the site.
        look: at the queue; None where Slurm does not answer.
        jobs: waiting jobs to decide on; by default those of now, 1000 at least.
    """
    try:
        loaded = load_policy(configuration.sections.policy.model)
    except PolicyError as error:
        yield Check(FAIL, "model", str(error))
        return
    yield Check(PASS, "model", f"{loaded.policy.name} {loaded.sha256[:12]}".strip())
    yield reward_of(configuration, loaded)
    if look is not None:
        waiting = len(look.considered.plan.snapshot.pending)
        yield _decision_time(configuration, loaded, look, jobs or max(waiting, FEWEST_JOBS))


def reward_of(configuration: Configuration, loaded: LoadedPolicy) -> Check:
    """Reward weights act by training alone: the model must have been trained for the site's."""
    if loaded.card is None:
        return Check(PASS, "reward", "a rule has no reward: [reward] is not used")
    trained, wanted = loaded.card.reward_weights, asdict(configuration.sections.reward)
    if not trained:
        return Check(
            WARN, "reward", "the model does not say what it was trained for: [reward] is not used"
        )
    differs = [key for key in wanted if abs(trained.get(key, 0.0) - wanted[key]) > 1e-9]
    told_classes = loaded.card.metadata.get("utility_classes", "{}")
    if not differs and told_classes != json.dumps(configuration.classifier.own, sort_keys=True):
        return Check(
            WARN,
            "reward",
            "the model was trained for other classes of service than [utility] has: train one "
            "with --config",
        )
    if not differs:
        return Check(PASS, "reward", "the model was trained for the weights of [reward]")
    told = ", ".join(f"{key} = {trained.get(key, 0.0):g}" for key in differs)
    return Check(
        FAIL,
        "reward",
        f"the model was trained with {told}: train one for your [reward], or set it as trained",
    )


def _decision_time(
    configuration: Configuration, loaded: LoadedPolicy, look: QueueLook, jobs: int
) -> Check:
    plan = look.considered.plan
    snapshot = queue_beside(plan.snapshot, jobs, np.random.default_rng(1))
    deadline = float(configuration.sections.policy.inference_deadline)
    taken = []
    for _ in range(_REPEATS):
        began = time.monotonic()
        try:
            loaded.policy.decide(snapshot, plan.memory)
        except PolicyError as error:
            return Check(FAIL, "decision time", str(error))
        taken.append(time.monotonic() - began)
    seconds = float(np.median(taken))
    what = f"{seconds:.3f} s for {jobs} jobs, allowed {deadline:g} s"
    if seconds >= deadline:
        return Check(
            FAIL, "decision time", f"{what}: raise inference_deadline or take a smaller model"
        )
    if seconds >= deadline / 2:
        return Check(WARN, "decision time", f"{what}: raise inference_deadline")
    return Check(PASS, "decision time", what)
