"""A function with a body for each type does the same for Python as for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from slurm_rl_plugin.simulator.kernel.chosen_by_type import chosen_by_type
from slurm_rl_plugin.simulator.kernel.compilation import compiled


class Doubling(NamedTuple):
    """A way to count."""

    factor: float


class AsItIs(NamedTuple):
    """Another."""

    factor: float


class Way(NamedTuple):
    """Carries a way in a field."""

    before: float
    counting: Doubling | AsItIs


def _doubled(number: float, counting: Doubling) -> float:
    return number * counting.factor


@chosen_by_type("counting", {Doubling: _doubled})
def counted(number: float, counting: Doubling | AsItIs) -> float:
    """A number as a way counts it."""
    return number


def _doubled_of(number: float, way: Way) -> float:
    return number * way.counting.factor + way.before


@chosen_by_type("way.counting", {Doubling: _doubled_of})
def counted_of(number: float, way: Way) -> float:
    """The same, of a field."""
    return number + way.before


def count(number: float, counting: Doubling | AsItIs) -> float:
    return counted(number, counting)


def count_of(number: float, way: Way) -> float:
    return counted_of(number, way)


@pytest.mark.parametrize(("counting", "expected"), [(Doubling(2.0), 6.0), (AsItIs(2.0), 3.0)])
def test_body_of_the_type_is_taken_by_python_and_by_compiled_code(
    counting: Doubling | AsItIs, expected: float
) -> None:
    way = Way(before=1.0, counting=counting)
    assert counted(3.0, counting) == compiled(count)(3.0, counting) == expected
    assert counted_of(3.0, way) == compiled(count_of)(3.0, way) == expected + 1.0


def test_what_a_function_says_of_itself_is_that_of_the_other_body() -> None:
    assert counted.__name__ == "counted"
    assert counted.__doc__ == "A number as a way counts it."


def test_path_that_names_no_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="planned"):
        chosen_by_type("planned", {})(_doubled)
