"""Amounts of resources as one text of a job, such as `cpus=32,memory=512000,gpus=2`.

A text that `resources_text` did not write raises ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS
from slurm_rl_plugin.units import FloatArray, IntArray


def resources_text(amounts: Mapping[str, float]) -> str:
    """Amounts as they are stored, such as `cpus=32,memory=512000,gpus=2,gres/gpu:a100=2`.

    By the names of `ResourceRequests`; memory in MiB. What is not there is 0, but for CPUs: without
    a word of them they are the job's processors.
    """
    others = sorted(amounts.keys() - set(BASIC_RESOURCES))
    told = [name for name in (*BASIC_RESOURCES, *others) if amounts.get(name) or name == CPUS]
    return ",".join(f"{name}={_written(amounts[name])}" for name in told if name in amounts)


def _written(amount: float) -> str:
    return str(int(amount)) if float(amount).is_integer() else repr(float(amount))


def amounts_of(text: str) -> dict[str, float]:
    """The amounts of a stored text."""
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.rpartition("=")
        amount = float(value)
        if not name or not 0.0 <= amount < math.inf:
            raise ValueError(part)
        found[name] = amount
    return found


def totals_of(
    texts: Sequence[str], place: IntArray, processors: IntArray
) -> tuple[tuple[str, ...], FloatArray]:
    """Names of resources, and what each job asks of them, shape [n, resources].

    `place` is the index of each job into the texts; its processors are its CPUs where its text says
    nothing of them.
    """
    if not texts:
        return BASIC_RESOURCES, np.zeros((0, len(BASIC_RESOURCES)))
    amounts = [amounts_of(text) for text in texts]
    others = sorted({name for each in amounts for name in each} - set(BASIC_RESOURCES))
    names = (*BASIC_RESOURCES, *others)
    rows = np.zeros((len(amounts), len(names)))
    for row, told in zip(rows, amounts, strict=True):
        row[:] = [told.get(name, np.nan if name == CPUS else 0.0) for name in names]
    total: FloatArray = rows[place]
    cpus = total[:, 0]
    total[:, 0] = np.where(np.isnan(cpus), processors, cpus)
    return names, total
