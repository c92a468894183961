"""Functions with a body for each type of an argument: the loop compiled for one carries no other.

A type stands for a way to do something, as `Plan` for a plan with estimates; where there is none,
another type stands for that, and neither its data nor its questions are in the compiled loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from numba.extending import overload

Body = TypeVar("Body", bound=Callable[..., Any])


def chosen_by_type(path: str, bodies: Mapping[type, Callable[..., Any]]) -> Callable[[Body], Body]:
    """Let a function do what is given for the type of an argument, and for others what it says.

    Called by compiled code, the body is inlined; called by Python, it runs as it stands.

    Args:
        path: the argument, or a field of a named tuple in it as "queue.planned".
        bodies: named tuple -> function of the same arguments.
    """
    argument, *fields = path.split(".")

    def choose(otherwise: Body) -> Body:
        place = list(inspect.signature(otherwise).parameters).index(argument)

        @wraps(otherwise)
        def chosen(*arguments: Any) -> Any:
            given = arguments[place]
            for field in fields:
                given = getattr(given, field)
            return bodies.get(type(given), otherwise)(*arguments)

        def body_for(*types: Any) -> Any:
            given = types[place]
            for field in fields:
                given = given.types[given.fields.index(field)]
            return bodies.get(given.instance_class, otherwise)

        overload(chosen, inline="always", strict=False)(body_for)
        return chosen  # type: ignore[return-value]

    return choose
