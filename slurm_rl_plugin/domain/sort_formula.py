"""The priority that OpenPBS gives pending jobs: its job_sort_formula, taken apart for replays.

A replay needs the part of a formula that is fixed while a job waits, and what a second of eligible
time and fair share add. A formula that is no such sum, with the same weights for all jobs, is
refused. So is a fairshare_usage_res whose usage does not grow by the same amount each second.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.domain.billing import JOBS, NODES
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, HOUR, FloatArray

#: What changes while a job waits. `fairshare_factor` is 2^(-usage/share) over the tree.
ELIGIBLE, FACTOR = "eligible_time", "fairshare_factor"
_NODES = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Call, ast.IfExp),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop),
)
_PYTHONS = {each.__name__: each for each in (abs, min, max, round, int, float)}


def _of_floats(function: Callable[..., Any]) -> Callable[..., float]:
    return lambda *numbers: float(function(*numbers))


_FUNCTIONS = {
    name: _of_floats(each) for name, each in {**_PYTHONS, **vars(math)}.items() if callable(each)
}
#: `fairshare_tree_usage` changes while a job waits, but not as the factor does.
_TREE_USAGE = "fairshare_tree_usage"
#: Resources that usage may count, with their names and units here; OpenPBS counts KiB, not MiB.
_AMOUNTS = {
    "ncpus": (CPUS, 1.0),
    "mem": (MEMORY, 1024.0),
    "ngpus": (GPUS, 1.0),
    "nodect": (NODES, 1.0),
}
#: Where usage is tried: seconds of a run, and the amounts in their order.
_RUNS = ((60.0, (2.0, 3.0, 1.0, 1.0)), (DAY, (5.0, 7.0, 0.0, 2.0)), (0.0, (1.0, 1.0, 1.0, 1.0)))
_SORT, _USAGE = "job_sort_formula", "fairshare_usage_res"
#: Where the sum is tried: eligible seconds and factors.
_TRIED = ((3600.0, 0.0), (7 * DAY, 0.25), (0.0, 1.0), (600.0, 0.7))


class SortedBy(NamedTuple):
    """A formula as a sum: fixed + a_second * eligible seconds + a_factor * fair-share factor."""

    fixed: FloatArray  #: of each job, shape [n]
    a_second: float  #: the same for all jobs
    a_factor: float  #: the same for all jobs


def check_formula(formula: str) -> None:
    """Refuse a formula that `sorted_by` cannot take apart, whatever the jobs ask for."""
    values = np.array([1.0, 2.5, 700.0])
    names = _names(_program(formula))
    if _TREE_USAGE in names:
        raise _refused(formula, f"names {_TREE_USAGE}, which is not modelled")
    sorted_by(formula, dict.fromkeys(names, values), len(values))


def sorted_by(formula: str, jobs: Mapping[str, FloatArray], count: int) -> SortedBy:
    """Take job_sort_formula apart, a Python expression of names and functions of `math`.

    `jobs` is what its names are of each of `count` jobs; PBS takes 0 for what a job does not name.

    Raises:
        ConfigurationError: it is no expression, or no such sum.
    """
    program = _program(formula)
    names = _names(program) - {ELIGIBLE, FACTOR}
    columns = [jobs[name].tolist() if name in jobs else [0.0] * count for name in names]
    code = compile(program, _SORT, "eval")

    def value(job: int, waited: float, factor: float) -> float:
        own = {name: column[job] for name, column in zip(names, columns, strict=True)}
        return _value(code, own | {ELIGIBLE: waited, FACTOR: factor})

    fixed = np.array([value(job, 0.0, 0.0) for job in range(count)])
    a_second = value(0, DAY, 0.0) / DAY - fixed[0] / DAY if count else 0.0
    a_factor = value(0, 0.0, 1.0) - fixed[0] if count else 0.0
    for job in range(0, count, max(count // 100, 1)):
        for waited, factor in _TRIED:
            found = fixed[job] + a_second * waited + a_factor * factor
            if not math.isclose(value(job, waited, factor), found, rel_tol=1e-9, abs_tol=1e-9):
                raise _refused(
                    formula, f"is no sum of a fixed part, {ELIGIBLE} and {FACTOR} with weights"
                )
    return SortedBy(fixed, float(a_second), float(a_factor))


def used_each_second(formula: str) -> dict[str, float]:
    """What OpenPBS adds to an entity's usage for each second of a job, as weights by resource.

    By fairshare_usage_res, a resource or a Python expression of resources. CPU time is taken as the
    run time of all of the job's CPUs. JOBS is the weight of the job as such, whatever it asks for;
    memory is by MiB.

    Raises:
        ConfigurationError: it is no expression, or no weighted sum of resources times run time.
    """
    program = _program(formula, _USAGE)
    names, code = _names(program), compile(program, _USAGE, "eval")

    def usage(seconds: float, amounts: Sequence[float]) -> float:
        own = dict.fromkeys(names, 0.0) | dict(zip(_AMOUNTS, amounts, strict=True))
        return _value(code, own | {"walltime": seconds, "cput": seconds * amounts[0]})

    nothing = np.zeros(len(_AMOUNTS))
    job = usage(HOUR, nothing.tolist()) / HOUR
    weights = [usage(HOUR, one.tolist()) / HOUR - job for one in np.eye(len(_AMOUNTS))]
    for seconds, amounts in _RUNS:
        expected = seconds * (job + float(np.dot(weights, amounts)))
        if not math.isclose(usage(seconds, amounts), expected, rel_tol=1e-9, abs_tol=1e-9):
            raise _refused(formula, "is no weighted sum of resources times run time", _USAGE)
    if min(job, *weights) < 0.0 or not any((job, *weights)):
        raise _refused(formula, "gives no usage, or less than none", _USAGE)
    of_amounts = zip(_AMOUNTS.values(), weights, strict=True)
    found = {JOBS: job} | {name: unit * weight for (name, unit), weight in of_amounts}
    return {name: weight for name, weight in found.items() if weight}


def _names(program: ast.Expression) -> set[str]:
    """Names in a formula, without those of functions."""
    return {node.id for node in ast.walk(program) if isinstance(node, ast.Name)} - {*_FUNCTIONS}


def _value(code: CodeType, names: Mapping[str, float]) -> float:
    try:
        return float(eval(code, {"__builtins__": {}, **_FUNCTIONS}, names))  # noqa: S307
    except (ArithmeticError, TypeError, ValueError):
        return 0.0  # as PBS has it


def _program(formula: str, key: str = _SORT) -> ast.Expression:
    try:
        program = ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(formula, "is no expression", key) from None
    for node in ast.walk(program):
        called = isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        )
        if called or not isinstance(node, _NODES):
            raise _refused(formula, f"has a {type(node).__name__}, which is not read here", key)
    found: ast.Expression = ast.fix_missing_locations(_FloatsAlone().visit(program))
    return found


class _FloatsAlone(ast.NodeTransformer):
    """Makes numbers floats, and powers those of floats, which end at once."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        number = isinstance(node.value, int | float)
        return ast.Constant(float(node.value)) if number else node  # type: ignore[arg-type]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        return ast.Call(ast.Name("pow", ast.Load()), [node.left, node.right], [])


def _refused(formula: str, why: str, key: str = _SORT) -> ConfigurationError:
    return ConfigurationError(f"{key} {formula!r} {why}.")
