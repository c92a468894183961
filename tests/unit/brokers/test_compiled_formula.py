"""A formula has the same value inside compiled loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS, parse_formula
from slurm_rl_plugin.brokers.market.offers import compile_formula, formula_value
from slurm_rl_plugin.errors import FormulaError

NAMES = ("x", "y")
PARTS = st.recursive(
    st.sampled_from(["x", "y", "0", "1", "2.5", "1e200"]),
    lambda part: (
        st.builds("({} {} {})".format, part, st.sampled_from("+-*/"), part)
        | st.builds("({}) ** {}".format, part, st.sampled_from(["2", "-1", "0.5", "0"])).map(
            lambda text: f"({text})"
        )
        | st.builds("{}({})".format, st.sampled_from(["abs", "sqrt", "log", "exp", "-"]), part)
        | st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), part, part)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(text=PARTS, x=st.floats(-1e3, 1e3), y=st.sampled_from([0.0, 1.0, -2.0]))
def test_same_value(text, x, y):
    formula = parse_formula(text, NAMES)
    try:
        expected = formula.value({"x": x, "y": y})
    except FormulaError:
        expected = -math.inf
    measured = formula_value(compile_formula(formula), np.array([x, y]))
    if not math.isinf(measured) or not math.isinf(expected):
        assert measured == pytest.approx(expected, rel=1e-9) or math.isinf(measured)


@pytest.mark.parametrize("formula", [*MACHINE_FUNCTIONS.values(), *USER_FUNCTIONS.values()])
def test_functions_of_the_paper(formula):
    values = np.arange(2.0, 2.0 + len(formula.variables))
    expected = formula.value(dict(zip(formula.variables, values, strict=True)))
    assert formula_value(compile_formula(formula), values) == pytest.approx(expected)
