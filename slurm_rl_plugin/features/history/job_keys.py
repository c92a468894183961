"""Numbers that stand for users and templates from one process to the next, whole in a float64."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.features.history.run_history import limit_class
from slurm_rl_plugin.units import FloatArray, IntArray

#: A float64 holds integers of 53 bits; at 10,000 keys two are the same once in 10^8 tables.
_SPARE_BITS = np.uint64(12)
#: What stands for the limit of a job without one.
_NO_LIMIT = -1.0


@lru_cache(maxsize=65536)
def user_key(name: str) -> float:
    """The key of one user: a whole number of 52 bits, the same on every machine."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> int(_SPARE_BITS))


def user_keys(users: Sequence[str], index: IntArray) -> FloatArray:
    """Keys of the users of some jobs, shape [n]; all without a name count as one user.

    `index` counts in `users`; any other number is for a job whose user is unknown.
    """
    keys, which = met_users(users, index)
    return keys[which]


def met_users(users: Sequence[str], index: IntArray) -> tuple[FloatArray, IntArray]:
    """Keys of the users whom some jobs have, and which of them each job has, shape [n]."""
    names = (*users, "")
    is_known = (index >= 0) & (index < len(users))
    place = np.where(is_known, index, len(users))
    met = np.flatnonzero(np.bincount(place, minlength=len(names)))  # a queue has few of all users
    which = np.zeros(len(names), dtype=np.int64)
    which[met] = np.arange(len(met))
    return np.array([user_key(names[user]) for user in met.tolist()]), which[place]


def template_keys(user: FloatArray, processors: IntArray, time_limit: FloatArray) -> FloatArray:
    """Keys of templates: a user's jobs that ask for the same processors and time limit.

    Mixed from the user's key in numpy: a queue may hold a template for each of 100,000 jobs. The
    time limit is in seconds, NaN where none is known; for a row of history the number of its step
    (`run_history.limit_step`).
    """
    limit = np.where(np.isnan(time_limit), _NO_LIMIT, time_limit) + 0.0  # one zero, not two
    mixed: NDArray[np.uint64] = _mixed(
        user.astype(np.uint64) ^ _mixed(processors.astype(np.uint64))
    )
    bits: NDArray[np.uint64] = np.ascontiguousarray(limit).view(np.uint64)
    mixed = _mixed(mixed ^ bits)
    return (mixed >> _SPARE_BITS).astype(np.float64)


def limit_keys(user: FloatArray, time_limit: FloatArray) -> FloatArray:
    """Keys of users' jobs whose time limits are alike (`run_history.limit_class`).

    Time limits are in seconds, `run_history.NO_LIMIT` where there is none.
    """
    alike: NDArray[np.uint64] = (1.0 + limit_class(time_limit)).astype(np.uint64)
    mixed: NDArray[np.uint64] = _mixed(user.astype(np.uint64) ^ _mixed(alike))
    return (mixed >> _SPARE_BITS).astype(np.float64)


def job_keys(users: Sequence[str], jobs: JobTable) -> tuple[FloatArray, FloatArray]:
    """Keys of the user and of the template of each job, shape [n] each."""
    user = user_keys(users, jobs.user)
    return user, template_keys(user, jobs.processors, jobs.time_limit)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[Any]:
    """Every bit of the result depends on every bit given (the finish of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
