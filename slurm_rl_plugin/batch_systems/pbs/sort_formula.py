"""The formula by which PBS sorts: our score, and the site's own terms within one point of it."""

from __future__ import annotations

import ast
import re

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.errors import ConfigurationError

#: What one point of the score is worth in the formula; the site's own terms decide below it.
WEIGHT = 1000
#: Keeps the order of its argument, and stays below 500 for whatever is below 1e217: PBS evaluates a
#: formula as Python with all of `math`.
_BOUND = "asinh"


def formula_with(site: str) -> str:
    """Our score, and the site's terms for jobs of one score; "" for none."""
    return f"{WEIGHT}*{SCORE} + {_BOUND}({site})" if site else SCORE


def is_bounded(formula: str) -> bool:
    """Whether what stands beside our score in it can never overrule one point of the score."""
    try:
        body = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    match body:
        case ast.BinOp(ours, ast.Add(), ast.Call(ast.Name(name), [_])) if name == _BOUND:
            return _weight_of(ours) >= WEIGHT
        case _:
            return _weight_of(body) > 0


def _weight_of(node: ast.expr) -> float:
    """What one point of the score is worth in a term; 0 where it is not the score alone."""
    match node:
        case ast.Name(name) if name == SCORE:
            return 1.0
        case ast.BinOp(ast.Constant(int() | float() as weight), ast.Mult(), ast.Name(name)):
            return weight if name == SCORE else 0.0
        case _:
            return 0.0


def without_ours(formula: str) -> str:
    """The terms of a formula that we have extended already, also as before, and of any other.

    Raises:
        ConfigurationError: it holds our resource in another form, or a double quote.
    """
    formula = formula.strip()
    ours = re.fullmatch(rf"(?:{WEIGHT}\*)?{SCORE}(?: \+ (?:{_BOUND})?\((.*)\))?", formula)
    site = (ours[1] or "") if ours else formula
    if re.search(rf"\b{SCORE}\b", site) or '"' in site:
        raise ConfigurationError(
            f"the formula {formula!r} cannot be taken apart: give the site's own terms with "
            f"--formula, without {SCORE} and without double quotes."
        )
    return site
