"""Imitation of an order that knows: pairs of jobs that wait together, weighed by the advantage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.networks.whole_queue.inputs import CONTEXT, JOB_INPUTS
from bench.networks.whole_queue.loop import KeptLooks
from bench.networks.whole_queue.network import GATES, LINEAR, NUMBERS, QueueNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Adam (Kingma and Ba 2015), looks of a step, how small gates begin.
_RATE, _FADE, _FADE_SQUARES, _BATCH, _SMALL = 0.01, 0.9, 0.999, 256, 0.3
#: Shorter runs count as so many seconds in bounded slowdown.
_COUNTED = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What an order that knows prefers at each look.

    Attributes:
        linear: linear scores, shape [m, n].
        inputs: of the jobs, shape [m, n, JOB_INPUTS].
        context: shape [m, CONTEXT].
        advantage: what it gains that the first job of a pair goes before the second, and loses
            where that is negative, on a scale of powers of ten; shape [m, n, n], 0 where none is.
    """

    linear: FloatArray
    inputs: FloatArray
    context: FloatArray
    advantage: FloatArray

    def __getitem__(self, looks: BoolArray | IntArray | slice) -> Choices:
        """Some of the looks."""
        return Choices(
            linear=self.linear[looks],
            inputs=self.inputs[looks],
            context=self.context[looks],
            advantage=self.advantage[looks],
        )

    @classmethod
    def of(cls, kept: KeptLooks, workload: Workload, power: float) -> Choices:
        """What the true run times say of the jobs of each look that was kept.

        If a job goes before another, that one waits for its run, times a power of its processors:
        1 where the two share a machine, 0 where they stand in each other's way at any width. The
        advantage is the difference between what both orders cost in slowdown.
        """
        many = kept.filled[0]
        jobs = kept.jobs[:many]
        run = np.maximum(workload.run_time[jobs], 1.0)
        counted = np.maximum(run, _COUNTED)
        lasts = run * workload.processors[jobs] ** power
        harm = lasts[:, None, :] / counted[:, :, None]  # of the first, waiting for the second
        gain = harm - harm.transpose(0, 2, 1)
        there = (jobs[:, :, None] >= 0) & (jobs[:, None, :] >= 0)
        return cls(
            linear=kept.linear[:many],
            inputs=kept.inputs[:many],
            context=kept.context[:many],
            advantage=np.where(there, np.sign(gain) * np.log10(1.0 + np.abs(gain)), 0.0),
        )


def together(choices: list[Choices]) -> Choices:
    """Those of several logs."""
    return Choices(
        linear=np.concatenate([each.linear for each in choices]),
        inputs=np.concatenate([each.inputs for each in choices]),
        context=np.concatenate([each.context for each in choices]),
        advantage=np.concatenate([each.advantage for each in choices]),
    )


def loss_of(network: QueueNetwork, choices: Choices) -> float:
    """Weighed logistic loss of a pair: log(2) for a network that says nothing."""
    scores = network.scores(choices.linear, choices.inputs, choices.context)
    apart = (scores[:, :, None] - scores[:, None, :]) * np.sign(choices.advantage)
    weight = np.abs(choices.advantage)
    return float((weight * np.logaddexp(0.0, -apart)).sum() / weight.sum())


def agreement(network: QueueNetwork, choices: Choices) -> float:
    """Part of the advantage that the network's order takes."""
    scores = network.scores(choices.linear, choices.inputs, choices.context)
    right = np.sign(scores[:, :, None] - scores[:, None, :]) == np.sign(choices.advantage)
    weight = np.abs(choices.advantage)
    return float((weight * right).sum() / weight.sum())


def slope_of(network: QueueNetwork, choices: Choices) -> FloatArray:
    """Of the loss by each number of the network, shape [NUMBERS]."""
    open_by = np.tanh(choices.context @ network.gates + network.bias)  # [m, GATES]
    scores = network.scores(choices.linear, choices.inputs, choices.context)
    apart = scores[:, :, None] - scores[:, None, :]
    sign, weight = np.sign(choices.advantage), np.abs(choices.advantage)
    pair = -sign * weight / (1.0 + np.exp(np.clip(sign * apart, -50.0, 50.0)))
    by_score = 2.0 * pair.sum(axis=2) / weight.sum()  # [m, n]: every pair stands there twice
    by_weights = np.einsum("mn,mnk->mk", by_score, choices.inputs)
    by_inner = by_weights @ network.directions * (1.0 - open_by**2)
    return np.concatenate(
        [
            [(by_score * choices.linear).sum()],
            by_weights.sum(axis=0),
            (by_weights.T @ open_by).ravel(),
            (choices.context.T @ by_inner).ravel(),
            by_inner.sum(axis=0),
        ]
    )


def first_network(seed: int) -> QueueNetwork:
    """The linear network as it is; gates drawn at random, and no direction moves anything."""
    rng = np.random.default_rng(seed)
    numbers = np.zeros(NUMBERS)
    numbers[0] = 1.0
    gates = LINEAR + JOB_INPUTS * GATES
    numbers[gates : gates + CONTEXT * GATES] = rng.normal(0.0, _SMALL, CONTEXT * GATES)
    return QueueNetwork.of(numbers)


def imitate(
    training: Choices,
    validation: Choices,
    *,
    steps: int,
    seed: int,
    whole: bool,
    progress: Callable[[int, float], None],
) -> QueueNetwork:
    """The network with the least loss on the validation looks along a descent on the others.

    Args:
        training, validation: what is to be chosen.
        steps: of Adam; the validation looks are looked at twenty times.
        seed: of the gates and of the looks of each step.
        whole: whether the queue may move the weights; the linear part alone otherwise.
        progress: called after each look at the validation looks with the step and the loss.
    """
    rng = np.random.default_rng(seed)
    numbers = first_network(seed).numbers
    free = np.arange(NUMBERS) < (NUMBERS if whole else LINEAR)
    best, least = QueueNetwork.of(numbers), np.inf
    mean, square = np.zeros(NUMBERS), np.zeros(NUMBERS)
    for step in range(1, steps + 1):
        drawn = rng.integers(len(training.context), size=_BATCH)
        slope = slope_of(QueueNetwork.of(numbers), training[drawn]) * free
        mean = _FADE * mean + (1.0 - _FADE) * slope
        square = _FADE_SQUARES * square + (1.0 - _FADE_SQUARES) * slope**2
        size = _RATE * np.sqrt(1.0 - _FADE_SQUARES**step) / (1.0 - _FADE**step)
        numbers = numbers - size * mean / (np.sqrt(square) + 1e-8)
        if step % max(steps // 20, 1) == 0:
            network = QueueNetwork.of(numbers)
            loss = loss_of(network, validation)
            if loss < least:
                best, least = network, loss
            progress(step, loss)
    return best
