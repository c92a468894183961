"""How the simulator is compiled."""

from __future__ import annotations

import sys
import types
from functools import partial
from typing import Any

from numba import njit

from slurm_rl_plugin.simulator.kernel.inner_code import compiled_twice
from slurm_rl_plugin.simulator.kernel.kept_code import KeptFunction, keep_compiled_code

keep_compiled_code()

# without the interpreter lock several simulations run beside each other in threads; `_nrt` is told
# since whoever is called by a function that borrows would else be compiled as borrowing
compiled: Any = partial(compiled_twice, options={"nogil": True, "_nrt": True})
#: For what makes and returns no array, and calls nothing that returns one. Its caller holds its
#: arrays all the while, so that none is counted; else each call counts every array of every
#: argument up and down, which took two thirds of the market's time.
compiled_borrowing: Any = partial(compiled_twice, options={"nogil": True, "_nrt": False})


def compiled_inline(function: Any) -> Any:
    """Compile what is called for every job of a queue: a call would pass every array."""
    made = njit(nogil=True, inline="always")(function)
    made._cache = KeptFunction(function)
    return made


def compiled_copy(function: Any, **names: Any) -> Any:
    """Compile a plain function of another package without importing numba there.

    Args:
        function: plain numpy-style function.
        names: compiled functions to stand in for the plain ones that `function` calls by name.
    """
    scope = {**function.__globals__, **names}
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    copy.__dict__["compiled_in"] = sys._getframe(1).f_globals["__name__"]  # whose imports count
    return compiled(copy)
