"""A formula may be arithmetic only; it has one value, and the same one compiled."""

import math
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.brokers.market.formula import (
    MACHINE_FUNCTIONS,
    USER_FUNCTIONS,
    parse_formula,
)
from slurm_rl_plugin.brokers.market.offers import formula_value
from slurm_rl_plugin.errors import ConfigurationError, FormulaError

ASSETS = Path(__file__).parents[2] / "assets"
NAMES = ("StartTime", "JobCost", "x")
VALUES = {"StartTime": 3.0, "JobCost": 5.0, "x": 2.0}
IN_ORDER = np.array([VALUES[name] for name in NAMES])


FORMULAS = tomllib.loads((ASSETS / "formulas.toml").read_text())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *FORMULAS["value"].items(),
        (" ".join(["x"] + ["+ x"] * 99), 200.0),
        ("(" * 100 + "x" + ")" * 100, 2.0),
    ],
)
def test_value(text, value):
    formula = parse_formula(text, NAMES)
    assert formula.value(VALUES) == pytest.approx(value)
    assert formula_value(formula.program, IN_ORDER) == pytest.approx(value)  # compiled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *FORMULAS["refused"].items(),
        ("9" * 400, "too large"),
        ("x" * 401, "401 characters"),
        ("(" * 200 + "x" + ")" * 199, "cannot be read"),
        ("x+(" * 60 + "x" + ")" * 60, "nested deeper"),
        ("-" * 300 + "x", "nested deeper"),
    ],
)
def test_refused_with_one_sentence(text, said):
    with pytest.raises(FormulaError) as refused:
        parse_formula(text, NAMES)
    sentence = str(refused.value)
    assert said in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert isinstance(refused.value, ConfigurationError)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    "text",
    [
        *("1 / (x - 2)", "sqrt(-x)", "log(0)", "exp(1000)", "x/0 - x/0", "(x - 2) ** -1"),
        *("(-x) ** 0.5", "min(x, 1e300 * 1e300)", "1 / exp(1000)"),  # a part is not finite
    ],
)
def test_no_finite_value(text):
    formula = parse_formula(text, NAMES)
    with pytest.raises(FormulaError, match="no finite value"):
        formula.value(VALUES)
    assert formula_value(formula.program, IN_ORDER) == -math.inf  # compiled


def test_missing_variable():
    with pytest.raises(FormulaError, match="no value is known for StartTime"):
        parse_formula("x + StartTime", NAMES).value({"x": 1.0})


def test_a_former_name_is_the_variable_that_it_became():
    formula = parse_formula("-wait - x", NAMES, {"wait": "StartTime", "price": "unknown"})
    assert formula.value(VALUES) == -5.0
    assert formula.names == {"StartTime", "x"}
    with pytest.raises(FormulaError, match="'price' is no variable"):
        parse_formula("price", NAMES, {"price": "unknown"})


_ODD = st.sampled_from([*"()+-*/^, ", "**", "x", "JobCost", "min(", "exp(", "sqrt(", "9", "1e300"])


@given(st.text(max_size=420) | st.lists(_ODD, max_size=150).map("".join))
def test_any_text_is_read_or_refused_and_takes_no_time(text):
    began = time.perf_counter()
    try:
        value = parse_formula(text, NAMES).value(VALUES)
    except FormulaError:
        value = 0.0
    assert math.isfinite(value)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize("formula", [*MACHINE_FUNCTIONS.values(), *USER_FUNCTIONS.values()])
def test_functions_of_the_paper(formula):
    values = np.arange(2.0, 2.0 + len(formula.variables))
    expected = formula.value(dict(zip(formula.variables, values, strict=True)))
    assert formula_value(formula.program, values) == pytest.approx(expected)
