"""The compiled market does what its sources say, though most of it does not count its arrays."""

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest

from slurm_rl_plugin.brokers import market
from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.simulator.kernel.compilation import CompiledFunction
from slurm_rl_plugin.simulator.kernel.workload import Workload
from tests.unit.brokers.test_market_guarantees import workload

MODULES = [
    importlib.import_module(f"{market.__name__}.{each.name}")
    for each in pkgutil.iter_modules(market.__path__)
]


def compiled_names(module) -> Iterator[tuple[str, CompiledFunction]]:
    for name, value in vars(module).items():
        if isinstance(value, CompiledFunction):
            yield name, value


def borrows(function: CompiledFunction) -> bool:
    return function.inner.targetoptions.get("_nrt") is False


BORROWING = {
    f"{module.__name__}.{name}": function
    for module in MODULES
    for name, function in compiled_names(module)
    if borrows(function) and function.inner.py_func.__module__ == module.__name__
}


def test_most_kernels_borrow():
    assert len(BORROWING) > 20  # else the option of numba's that tells of it has another name


def busy(seed: int, count: int = 50) -> Workload:
    """So many jobs for eight processors that some wait, with times at which many are equal."""
    rng = np.random.default_rng(seed)
    columns = (
        rng.choice([0.0, 0.0, 1.0, 7.0, 30.0], count),
        rng.choice([1.0, 5.0, 10.0, 33.0, 100.0], count),
        rng.choice([1.0, 1.0, 0.9, 0.5, 0.1, 0.01], count),
        rng.integers(1, 9, count),
    )
    return workload(list(zip(*columns, strict=True)))


@pytest.mark.parametrize("rescheduling", [True, False])
@pytest.mark.parametrize("machines", [(8,), (4, 4), (5, 2, 1)])
@pytest.mark.parametrize(("owner", "user"), [("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF3")])
def test_it_agrees_with_its_sources_interpreted(owner, user, machines, rescheduling):
    jobs = busy(len(machines))
    terms = MarketSettings(
        machines=machines,
        owner=MACHINE_FUNCTIONS[owner],
        user=USER_FUNCTIONS[user],
        rescheduling=rescheduling,
        margin=20.0,
    )
    found = simulate_market(jobs, terms)
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name, function in list(compiled_names(module)):
                patch.setattr(module, name, function.inner.py_func)
        expected = simulate_market(jobs, terms)
    for column in ("start", "promised", "price", "parts"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column), column)


@pytest.mark.parametrize("name", BORROWING)
def test_what_borrows_arrays_hands_none_on(name):
    # an array returned without being counted would be freed while its caller still reads it
    source = BORROWING[name].inner.py_func
    assert source.__annotations__["return"] in ("None", "bool", "int", "float")
    called = [source.__globals__.get(each) for each in source.__code__.co_names]
    assert all(borrows(each) for each in called if isinstance(each, CompiledFunction))
