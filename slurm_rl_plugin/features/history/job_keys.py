"""Numbers that stand for users and templates from one process to the next, whole in a float64."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.domain.resources import CPUS, ResourceRequests
from slurm_rl_plugin.units import FloatArray, IntArray

#: A float64 holds integers of 53 bits; at 10,000 keys two are the same once in 10^8 tables.
_SPARE_BITS = np.uint64(12)
#: What stands for the limit of a job without one.
_NO_LIMIT = -1.0


@lru_cache(maxsize=65536)
def user_key(name: str) -> float:
    """The key of one user: a whole number of 52 bits, the same on every machine."""
    return float(_text_key(name))


def _text_key(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> int(_SPARE_BITS)


def user_keys(users: Sequence[str], index: IntArray) -> FloatArray:
    """Keys of the users of some jobs, shape [n]; all without a name count as one user.

    Args:
        users: names.
        index: into `users`, shape [n]; any other number for a job whose user is unknown.
    """
    names = (*users, "")
    is_known = (index >= 0) & (index < len(users))
    place = np.where(is_known, index, len(users))
    met = np.flatnonzero(np.bincount(place, minlength=len(names)))  # a queue has few of all users
    keys = np.zeros(len(names))
    keys[met] = [user_key(names[user]) for user in met.tolist()]
    return keys[place]


def template_keys(user: FloatArray, processors: IntArray, time_limit: FloatArray) -> FloatArray:
    """Keys of templates: a user's jobs that ask for the same processors and time limit.

    Mixed from the user's key in numpy: a queue may hold a template for each of 100,000 jobs.

    Args:
        user: keys of `user_keys`, shape [n].
        processors: requested, shape [n].
        time_limit: requested seconds, NaN where none is known; shape [n].
    """
    limit = np.where(np.isnan(time_limit), _NO_LIMIT, time_limit) + 0.0  # one zero, not two
    mixed: NDArray[np.uint64] = _mixed(
        user.astype(np.uint64) ^ _mixed(processors.astype(np.uint64))
    )
    bits: NDArray[np.uint64] = np.ascontiguousarray(limit).view(np.uint64)
    mixed = _mixed(mixed ^ bits)
    return (mixed >> _SPARE_BITS).astype(np.float64)


def job_keys(users: Sequence[str], jobs: JobTable) -> tuple[FloatArray, FloatArray]:
    """Keys of the user and of the template of each job, shape [n] each.

    Jobs that are weighed by more than processors are of one template where they ask for the same
    of everything.

    Args:
        users: names that `jobs.user` indexes.
        jobs: n jobs.
    """
    user = user_keys(users, jobs.user)
    template = template_keys(user, jobs.processors, jobs.time_limit)
    if jobs.weighed is not None and jobs.requests is not None:
        template = _asking_alike(template, jobs.requests)
    return user, template


def _asking_alike(template: FloatArray, requests: ResourceRequests) -> FloatArray:
    """Keys that also tell apart who asks for another amount of memory, GPUs and so on.

    Not what jobs weigh: that changes with every node that goes down.
    """
    key: NDArray[np.uint64] = template.astype(np.uint64)
    for name in sorted(set(requests.names) - {CPUS}):
        asked = requests.of(name)
        if asked.any():  # whoever asks for nothing has the same key where nobody counts it
            bits = np.ascontiguousarray(asked).view(np.uint64) ^ np.uint64(_text_key(name))
            mixed = _mixed(key ^ _mixed(bits)) >> _SPARE_BITS
            key = np.where(asked > 0.0, mixed, key)
    return key.astype(np.float64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[Any]:
    """Every bit of the result depends on every bit given (the finish of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
