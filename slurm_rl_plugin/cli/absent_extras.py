"""Help without the extras: what a verb imports of them is there in name alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Modules that a head node does not need; requirements/train.txt brings them.
EXTRAS = ("numba", "matplotlib", "rich", "polars", "scipy", "onnx", "cmaes", "sklearn")
_OURS = "slurm_rl_plugin."
_KERNEL = f"{_OURS}simulator.kernel."
#: Our modules that extend numba when they are imported.
_EXTENDING = frozenset(_KERNEL + name for name in ("compilation", "kept_code"))


class _Absent(ModuleType):
    """A module that is absent, or anything taken from one: only to be named, passed and called."""

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> _Absent:
        return self

    def __getitem__(self, _: object) -> _Absent:
        return self

    def __iter__(self) -> Iterator[_Absent]:
        return iter(())

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()


class _AbsentFinder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        # half of a package that is loaded cannot be absent
        is_loaded = not isinstance(sys.modules.get(package, _Absent(package)), _Absent)
        absent = (package in EXTRAS and not is_loaded) or fullname in _EXTENDING
        return ModuleSpec(fullname, self) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        absent = _Absent(spec.name)
        absent.__path__ = []  # any module below it may be asked for
        return absent

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def absent_extras() -> Iterator[None]:
    """Import verbs without their extras, installed or not, to print their help and no more.

    What was imported within is forgotten afterwards.
    """
    finder, before = _AbsentFinder(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in sys.modules.keys() - before:
            package, _, own = name.rpartition(".")
            if isinstance(sys.modules[name], _Absent) or name.startswith(_OURS):
                del sys.modules[name]
                if package in sys.modules:  # else it was forgotten before what it holds
                    vars(sys.modules[package]).pop(own, None)
