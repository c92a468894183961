"""Named tuples of arrays are handed on by their address, within compiled code.

numba takes a tuple apart at each call: workload and cluster alone are 250 arguments, which every
function took apart and put together again, half of all that was compiled.
"""

# ruff: noqa: ARG001, ARG002 - numba calls all of these with arguments of its own
from __future__ import annotations

from typing import Any

import numba
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_cast, lower_getattr_generic, register_model

#: numba's types, of which mypy does not see all.
_TYPES: Any = numba.core.types


class Lent(numba.core.types.Type):  # type: ignore[misc]
    """The address of a named tuple that a caller keeps; read only.

    Attributes:
        whole: numba's type of the named tuple.
    """

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        super().__init__(name=f"Lent({whole})")

    @property
    def key(self) -> Any:
        """By which numba tells types apart."""
        return self.whole

    @property
    def fields(self) -> Any:
        """Names of the tuple's fields, as of a named tuple."""
        return self.whole.fields

    @property
    def types(self) -> tuple[Any, ...]:
        """Types of the fields: those of named tuples are lent on."""
        return tuple(lent(each) for each in self.whole.types)

    @property
    def instance_class(self) -> Any:
        """The class of the named tuple."""
        return self.whole.instance_class

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """A tuple is lent wherever a lent one is wanted."""
        return Conversion.safe if other == self.whole else None


def lent(of: Any) -> Any:
    """How a value of a type is handed on."""
    return Lent(of) if isinstance(of, _TYPES.BaseNamedTuple) else of


@register_model(Lent)
class LentModel(models.PrimitiveModel):  # type: ignore[misc]
    """An address."""

    def __init__(self, manager: Any, of: Lent) -> None:
        super().__init__(manager, of, manager.lookup(of.whole).get_value_type().as_pointer())


@infer_getattr
class FieldOfLent(AttributeTemplate):  # type: ignore[misc]
    """The type of a field."""

    key = Lent

    def generic_resolve(self, tuple_: Lent, field: str) -> Any:
        """None where there is no such field."""
        return tuple_.types[tuple_.fields.index(field)] if field in tuple_.fields else None


@lower_getattr_generic(Lent)
def _field(context: Any, builder: Any, of: Lent, address: Any, field: str) -> Any:
    place = of.fields.index(field)
    there, kind = cgutils.gep_inbounds(builder, address, 0, place), of.types[place]
    if isinstance(kind, Lent):
        return there
    return impl_ret_borrowed(context, builder, kind, builder.load(there))


@lower_cast(_TYPES.NamedTuple, Lent)
@lower_cast(_TYPES.NamedUniTuple, Lent)
def _lend(context: Any, builder: Any, of: Any, to: Lent, value: Any) -> Any:
    there = cgutils.alloca_once(builder, value.type)
    builder.store(value, there)
    return there
