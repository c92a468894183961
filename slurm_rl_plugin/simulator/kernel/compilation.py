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
    """Choose the body of a function by the type of an argument; by default the function's own.

    Compiled code inlines the body; Python calls it.

    Args:
        path: the argument, or a field of a named tuple in it, such as "queue.planned".
        bodies: named tuple -> function of the same arguments, compiled or not.
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
            body = bodies.get(given.instance_class, otherwise)
            return (
                _calling(body.py_func, body.inner) if isinstance(body, CompiledFunction) else body
            )

        overload(chosen, inline="always", strict=False)(body_for)
        return chosen  # type: ignore[return-value]

    return choose


#: Types of numba; mypy does not know all of them.
_TYPES: Any = numba.core.types


class Lent(numba.core.types.Type):  # type: ignore[misc]
    """The address of a named tuple that a caller keeps; read only."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole  #: numba's type of the named tuple
        super().__init__(name=f"Lent({whole})")

    @property
    def key(self) -> Any:
        """Numba compares types by it."""
        return self.whole

    @property
    def fields(self) -> Any:
        """Names of the fields of the tuple."""
        return self.whole.fields

    @property
    def types(self) -> tuple[Any, ...]:
        """Types of the fields; a field that is a named tuple is lent too."""
        return tuple(lent(each) for each in self.whole.types)

    @property
    def instance_class(self) -> Any:
        """The class of the named tuple."""
        return self.whole.instance_class

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """A tuple converts to a lent one."""
        return Conversion.safe if other == self.whole else None


def lent(of: Any) -> Any:
    """The type in which compiled code passes a value of a type."""
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
        """None without such a field."""
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


#: Prefix of the globals by which numba gives code its constants.
_ENVIRONMENT = "_ZN08NumbaEnv"


class _WithoutMachineCode:
    """numba's code generator, for code without machine code: no address of it can be set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: `OuterLibrary` sets it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into the code of its callers."""

    @property
    def codegen(self) -> Any:
        """Numba's code generator, without what needs machine code."""
        return _WithoutMachineCode(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        """Link the called code; the outer face optimizes it when it becomes machine code."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """The bitcode, for the cache."""
        return self.serialize_using_bitcode()

    @classmethod
    def of_kept(cls, codegen: Any, kept: tuple[str, str, bytes]) -> InnerLibrary:
        """Read what `serialize_using_object_code` wrote."""
        name, _, bitcode = kept
        library = cls(codegen, name)
        library._final_module = parse_bitcode(bitcode)
        library._finalized = True
        return library


class _InnerContext:
    """numba's target, which reads kept code as inner code."""

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
    """Machine code that inner code is linked into."""

    def _finalize_final_module(self) -> None:
        """Give linked code its constants: numba gives them only to code that has an address."""
        super()._finalize_final_module()
        for each in self._final_module.global_variables:
            if each.name.startswith(_ENVIRONMENT):
                constants = lookup_environment(each.name)
                if constants is not None:
                    self._codegen.set_env(each.name, constants)


class _OuterCompiler(compiler.Compiler):  # type: ignore[misc]
    linked: type[JITCodeLibrary] = OuterLibrary  # type: ignore[valid-type, unused-ignore]
    wrapped = True  #: whether Python calls it

    def __init__(self, typingctx: Any, targetctx: Any, _: Any, *others: Any) -> None:
        library = self.linked(targetctx.codegen(), self.linked.__name__)
        library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, *others)
        self.state.flags.no_cfunc_wrapper = True
        self.state.flags.no_cpython_wrapper = not self.wrapped


class _InnerCompiler(_OuterCompiler):
    linked, wrapped = InnerLibrary, False


class InnerFunction(CPUDispatcher):  # type: ignore[misc]
    """The face that compiled code calls."""

    def enable_caching(self) -> None:
        """Keep inner code between runs."""
        self._cache = _InnerCache(self.py_func)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for lent tuples; numba asks for it."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.compile(tuple(lent(each) for each in args))
        name = self.py_func.__name__
        template = typing.make_concrete_template(
            f"CallTemplate({name})", key=name, signatures=self.nopython_signatures
        )
        return template, pysig, args, {}


class CompiledFunction(CPUDispatcher):  # type: ignore[misc]
    """The face that Python calls."""

    def __init__(self, function: Any, options: Mapping[str, Any]) -> None:
        # its code is kept under another name than the outer face's
        copy = _function(function, qualname=f"{function.__qualname__}-inner")
        self.inner = InnerFunction(  #: the face that compiled code calls
            py_func=copy, targetoptions=dict(options), pipeline_class=_InnerCompiler
        )
        super().__init__(
            py_func=_calling(function, self.inner),
            targetoptions={**options, "_nrt": True},
            pipeline_class=_OuterCompiler,
        )

    def enable_caching(self) -> None:
        """Keep the code of both faces between runs."""
        self._cache = KeptFunction(self.py_func)
        self.inner.enable_caching()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """That of the inner face: compiled code calls no other."""
        return self.inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """That of the inner face."""
        return self.inner.get_overload(sig)

    @property
    def nopython_signatures(self) -> Any:
        """Those of the inner face."""
        return self.inner.nopython_signatures


def _function(
    like: Any, *, code: Any = None, scope: dict[str, Any] | None = None, qualname: str = ""
) -> Any:
    closure = like.__closure__ if code is None else None
    scope = like.__globals__ if scope is None else scope
    made = types.FunctionType(
        like.__code__ if code is None else code, scope, like.__name__, like.__defaults__, closure
    )
    made.__dict__.update(like.__dict__)
    made.__module__, made.__qualname__ = like.__module__, qualname or like.__qualname__
    made.__doc__, made.__annotations__ = like.__doc__, like.__annotations__
    return made


def _calling(function: Any, inner: InnerFunction) -> Any:
    """A function of the same arguments that calls the inner face with them."""
    names = ", ".join(inspect.signature(function).parameters)
    scope: dict[str, Any] = {"inner": inner, "__name__": function.__module__}
    exec(f"def outer({names}): return inner({names})", scope)  # noqa: S102 - names of arguments
    code = scope["outer"].__code__.replace(
        co_filename=function.__code__.co_filename,
        co_firstlineno=function.__code__.co_firstlineno,
        co_name=function.__name__,
    )
    return _function(function, code=code, scope=scope)


def _compiled_twice(function: Any, options: Mapping[str, Any]) -> CompiledFunction:
    made = CompiledFunction(function, {**options, "nopython": True})
    made.enable_caching()
    return made


keep_compiled_code()

# Without the interpreter lock several simulations run in threads at once. `_nrt` is explicit: a
# function that a borrowing function calls would otherwise be compiled as borrowing.
compiled: Any = partial(_compiled_twice, options={"nogil": True, "_nrt": True})
#: For functions that make and return no array, and call no function that returns one. The caller
#: holds the arrays meanwhile, so they are not counted; otherwise each call counts each array of
#: each argument up and down, which took two thirds of the market's time.
compiled_borrowing: Any = partial(_compiled_twice, options={"nogil": True, "_nrt": False})


def compiled_inline(function: Any) -> Any:
    """Compile a function that is called for each job of a queue: a call would pass each array."""
    made = njit(nogil=True, inline="always")(function)
    made._cache = KeptFunction(function)
    return made


def compiled_copy(function: Any, **names: Any) -> Any:
    """Compile a plain function of another package, which calls `names` in place of plain ones."""
    copy = _function(function, scope={**function.__globals__, **names})
    copy.__dict__["compiled_in"] = sys._getframe(1).f_globals["__name__"]  # whose imports count
    return compiled(copy)
