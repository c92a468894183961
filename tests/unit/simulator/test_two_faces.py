"""What Python calls and what compiled code calls are two faces of one function."""

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.compilation import CompiledFunction

PROGRAM = """
import sys
import numpy as np
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings, run_until, simulate_scores,
)
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
workload = prepare_log(generated_log("egee:jobs=300,seed=1")).workload(None)
limit = ClassLimit() if sys.argv[1] == "limited" else None
settings = SimulationSettings(capacity=100, backfilling="easy", class_limit=limit)
found = simulate_scores(workload, -workload.submit, settings)
print(found.start.sum(), sum(run_until.stats.cache_hits.values()))
"""


class Nested(NamedTuple):
    """A named tuple in another."""

    factor: float
    added: np.ndarray


class Jobs(NamedTuple):
    """Columns that compiled code reads and writes."""

    start: np.ndarray
    count: int
    nested: Nested


def compiled_alone(function):
    return CompiledFunction(function, {"nopython": True, "_nrt": True})


@compiled_alone
def moved(jobs, by=1.0):
    for job in range(jobs.count):
        jobs.start[job] += by * jobs.nested.factor + jobs.nested.added[job]
    return jobs.start.sum()


@compiled_alone
def refusing(jobs):
    if jobs.start[0] < 0.0:
        raise ValueError("a start before all time")
    return jobs.start[0]


@compiled_alone
def refusing_a_count(jobs):
    if jobs.count > 2:
        raise ValueError("too many", jobs.count)
    return jobs.count


@compiled_alone
def asking(jobs):
    return refusing_a_count(jobs) + 1


@compiled_alone
def moved_twice(jobs):
    moved(jobs)
    return moved(jobs, 2.0)


@compiled_alone
def of_nested(nested):
    return nested.factor + nested.added[0]


@compiled_alone
def made_here(start):
    nested = Nested(3.0, start)
    jobs = Jobs(start, len(start), nested)
    return of_nested(jobs.nested) + refusing(jobs)


@pytest.fixture
def jobs():
    return Jobs(np.arange(3.0), 3, Nested(10.0, np.array([0.0, 0.5, 1.0])))


def test_python_and_compiled_code_get_the_same(jobs):
    other = Jobs(jobs.start.copy(), *jobs[1:])
    moved.inner.py_func(other)
    expected = moved.inner.py_func(other, 2.0)
    assert moved_twice(jobs) == expected
    np.testing.assert_array_equal(jobs.start, other.start)


def test_tuples_made_by_compiled_code_are_lent_too():
    assert made_here(np.array([2.0, 4.0])) == 3.0 + 2.0 + 2.0


def test_inner_code_raises_what_python_code_would(jobs):
    jobs.start[0] = -1.0
    with pytest.raises(ValueError, match="a start before all time"):
        refusing(jobs)
    with pytest.raises(ValueError, match="a start before all time"):
        made_here(np.array([-2.0]))


def test_inner_code_knows_its_constants(jobs):
    # numba makes the exception from constants next to the code
    with pytest.raises(ValueError, match="too many") as refused:
        asking(jobs)
    assert refused.value.args == ("too many", 3)


def in_a_process(folder, loop):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, loop], env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_outer_face_is_kept_for_the_next_process(tmp_path):
    first, second = in_a_process(tmp_path, "free"), in_a_process(tmp_path, "free")
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("0", "1")


def test_kept_inner_code_is_linked_into_another_caller(tmp_path):
    expected, _ = in_a_process(tmp_path / "empty", "limited")
    in_a_process(tmp_path / "other", "free")
    assert in_a_process(tmp_path / "other", "limited")[0] == expected
