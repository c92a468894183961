"""How the simulator is compiled."""

# ruff: noqa: ARG001, ARG002 - numba calls several of these with arguments of its own
from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import numba
from llvmlite.binding import parse_bitcode
from numba import njit
from numba.core import cgutils, compiler, typing
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.datamodel import models
from numba.core.environment import lookup_environment
from numba.core.imputils import impl_ret_borrowed
from numba.core.registry import CPUDispatcher
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_cast,
    lower_getattr_generic,
    overload,
    register_model,
)

from slurm_rl_plugin.simulator.kernel.kept_code import KeptFunction, keep_compiled_code

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


#: How numba calls the global that tells code of its constants.
_ENVIRONMENT = "_ZN08NumbaEnv"


class _WithoutMachineCode:
    """numba's code generator for what has no machine code, so that nothing in it can be set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: object) -> None:
        """Nothing: see `OuterLibrary`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into that of callers."""

    @property
    def codegen(self) -> Any:
        """numba's, without what needs machine code."""
        return _WithoutMachineCode(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        """Link what is called; it is optimized where it becomes machine code."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """What is kept of it."""
        return self.serialize_using_bitcode()

    @classmethod
    def of_kept(cls, codegen: Any, kept: tuple[str, str, bytes]) -> InnerLibrary:
        """The library of which `serialize_using_object_code` kept this."""
        name, _, bitcode = kept
        library = cls(codegen, name)
        library._final_module = parse_bitcode(bitcode)
        library._finalized = True
        return library


class _InnerContext:
    """numba's target, where kept code is read as inner code."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, kept: Any) -> Any:
        return InnerLibrary.of_kept(self._context.codegen(), kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _InnerCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(_InnerContext(target_context), payload)


class _InnerCache(KeptFunction):
    _impl_class = _InnerCacheImpl


class OuterLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Machine code into which inner code is linked."""

    def _finalize_final_module(self) -> None:
        """Tell linked code its constants, which numba tells where a function has machine code."""
        super()._finalize_final_module()
        for each in self._final_module.global_variables:
            told = lookup_environment(each.name) if each.name.startswith(_ENVIRONMENT) else None
            if told is not None:
                self._codegen.set_env(each.name, told)


class _InnerCompiler(compiler.Compiler):  # type: ignore[misc]
    def __init__(self, typingctx: Any, targetctx: Any, _: Any, *others: Any) -> None:
        linked = InnerLibrary(targetctx.codegen(), "inner")
        linked.enable_object_caching()
        super().__init__(typingctx, targetctx, linked, *others)
        self.state.flags.no_cpython_wrapper = True
        self.state.flags.no_cfunc_wrapper = True


class _OuterCompiler(compiler.Compiler):  # type: ignore[misc]
    def __init__(self, typingctx: Any, targetctx: Any, _: Any, *others: Any) -> None:
        machine_code = OuterLibrary(targetctx.codegen(), "outer")
        machine_code.enable_object_caching()
        super().__init__(typingctx, targetctx, machine_code, *others)
        self.state.flags.no_cfunc_wrapper = True


class InnerFunction(CPUDispatcher):  # type: ignore[misc]
    """The face that compiled code sees."""

    def enable_caching(self) -> None:
        """Keep the code, as inner code."""
        self._cache = _InnerCache(self.py_func)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As numba asks for it: compiled for tuples that are lent."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.compile(tuple(lent(each) for each in args))
        name = self.py_func.__name__
        template = typing.make_concrete_template(
            f"CallTemplate({name})", key=name, signatures=self.nopython_signatures
        )
        return template, pysig, args, {}


class CompiledFunction(CPUDispatcher):  # type: ignore[misc]
    """The face that Python sees.

    Attributes:
        inner: the face that compiled code sees.
    """

    def __init__(self, function: Any, options: Mapping[str, Any]) -> None:
        self.inner = InnerFunction(
            py_func=_copy(function), targetoptions=dict(options), pipeline_class=_InnerCompiler
        )
        super().__init__(
            py_func=_handing_on(function, self.inner),
            targetoptions={**options, "_nrt": True},
            pipeline_class=_OuterCompiler,
        )

    def enable_caching(self) -> None:
        """Keep the code of both faces."""
        self._cache = KeptFunction(self.py_func)
        self.inner.enable_caching()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The inner face's, as all that compiled code asks for."""
        return self.inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The inner face's."""
        return self.inner.get_overload(sig)

    @property
    def nopython_signatures(self) -> Any:
        """The inner face's."""
        return self.inner.nopython_signatures


def _copy(function: Any) -> Any:
    """The function by another name, by which its code is kept beside that of the outer face."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copy.__dict__.update(function.__dict__)
    copy.__annotations__, copy.__module__ = function.__annotations__, function.__module__
    copy.__qualname__ = f"{function.__qualname__}-inner"
    return copy


def _handing_on(function: Any, inner: InnerFunction) -> Any:
    """A function of the same arguments that hands them on."""
    names = ", ".join(inspect.signature(function).parameters)
    scope: dict[str, Any] = {"inner": inner, "__name__": function.__module__}
    exec(f"def outer({names}): return inner({names})", scope)  # noqa: S102 - names of arguments
    outer = scope["outer"]
    code = outer.__code__.replace(
        co_filename=function.__code__.co_filename,
        co_firstlineno=function.__code__.co_firstlineno,
        co_name=function.__name__,
    )
    outer = types.FunctionType(code, scope, function.__name__, function.__defaults__)
    outer.__dict__.update(function.__dict__)
    outer.__module__, outer.__qualname__ = function.__module__, function.__qualname__
    outer.__doc__ = function.__doc__
    return outer


def compiled_twice(function: Any, options: Mapping[str, Any]) -> CompiledFunction:
    """A function with both faces, whose code is kept."""
    made = CompiledFunction(function, {**options, "nopython": True})
    made.enable_caching()
    return made


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
