"""Compiled code is kept between runs, and found by what it computes.

To decide whether kept code is stale, numba compares each byte of the function's own file and no
other. We compare the statements of all files that it imports: a docstring compiles nothing again.
"""

from __future__ import annotations

import ast
import atexit
import errno
import hashlib
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from slurm_rl_plugin.whole_file import own_file, own_folder, write_whole

PACKAGE = Path(__file__).resolve().parents[2]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def closure_digest(module: str) -> str:
    """Digest of all code that a module, by its dotted name, computes with; 16 digits."""
    digest = hashlib.sha256()
    for name in sorted(import_closure(module)):
        digest.update(f"{name}\n{_read(name)[0]}\n".encode())
    return digest.hexdigest()[:16]


def import_closure(module: str) -> set[str]:
    """The module and every module of this package that it imports, also indirectly."""
    found, waiting = {module}, [module]
    while waiting:
        new = set(_read(waiting.pop())[1]) - found
        found |= new
        waiting += new
    return found


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's code without docstrings, and the modules of this package that it imports."""
    tree = ast.parse(_source(module).read_text())
    imported = tuple(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree), imported


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if _source(below).exists() else str(node.module)


def _source(module: str) -> Path:
    path = PACKAGE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


logger = logging.getLogger(__name__)

#: Code is kept of this many states of a module: branches, releases.
_STATES = 4


class KeptByClosure:
    """Where the code of a function is kept; numba calls this a cache locator.

    Each module has a folder for each state of the code that it computes with, so that branches,
    clones and machines of one CPU type share what they have in common.
    """

    def __init__(self, function: Any, source: str) -> None:
        self._py_file = source  # numba names it in its warnings
        module = getattr(function, "compiled_in", function.__module__)
        self._digest = closure_digest(module)
        self._module = module.removeprefix(f"{PACKAGE.name}.")
        self._folder = kept_code() / f"{self._module}-{self._digest}"

    @classmethod
    def from_function(cls, function: Any, source: str) -> KeptByClosure | None:
        """The place for a function; None outside this package, or if the folder cannot be made."""
        if not function.__module__.startswith(f"{PACKAGE.name}."):
            return None
        place = cls(function, source)
        try:
            place.ensure_cache_path()
        except OSError:
            return None
        return place

    def ensure_cache_path(self) -> None:
        """Make the folder and remove the oldest ones of the module."""
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            states = sorted(kept_code().glob(f"{self._module}-*"), key=_age)
            for state in states[:-_STATES]:
                shutil.rmtree(state, ignore_errors=True)
        if not os.access(self._folder, os.W_OK):
            raise PermissionError(self._folder)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What must be equal for the code to be used."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Nothing: numba distinguishes functions of one name in a module by their byte code."""
        return ""


class _OwnCode(IndexDataCacheFile):  # type: ignore[misc]
    """The code of a function. numba unpickles it: only this user or root may make it."""

    _index_path: Any
    _data: int | None = None

    def _load_index(self) -> Any:
        named = self._index_path
        try:  # numba opens and closes the same file that was checked
            self._index_path = own_file(Path(named))
            return super()._load_index()
        except OSError:
            return {}
        finally:
            self._index_path = named

    def _load_data(self, name: str) -> Any:
        self._data = own_file(Path(self._data_path(name)))
        try:
            return super()._load_data(name)
        finally:
            self._data = None

    def _data_path(self, name: str) -> Any:
        return super()._data_path(name) if self._data is None else self._data

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        # others may read it, and may not change it, whatever the umask
        write_whole(Path(path), content.getvalue(), sync=False, mode=0o644)


class KeptFunction(FunctionCache):  # type: ignore[misc]
    """Kept code of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _OwnCode(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )


def _age(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def kept_code() -> Path:
    """The folder with all compiled code; it may be removed at any time."""
    return Path(str(numba.config.CACHE_DIR))


def keep_compiled_code() -> None:
    """Let numba keep the code of our functions, below NUMBA_CACHE_DIR if that is set."""
    try:
        named = os.environ.get("NUMBA_CACHE_DIR")
        if not named:
            home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
            numba.config.CACHE_DIR = str(Path(home) / "slurm-rl" / "compiled")
        # each file in it is checked when it is read, so earlier files may stay
        own_folder(kept_code(), shut=not named)
        if not os.access(kept_code(), os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(kept_code()))
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        logger.warning(
            "compiled code cannot be kept (%s), so this run compiles for itself alone: name a "
            "folder by NUMBA_CACHE_DIR.",
            error,
        )
        numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="slurm-rl-compiled-")
        atexit.register(shutil.rmtree, numba.config.CACHE_DIR, ignore_errors=True)
    locators = FunctionCache._impl_class._locator_classes
    if KeptByClosure not in locators:
        locators.insert(0, KeptByClosure)


def compiled_before() -> bool:
    """Whether this user has kept code; without it the first run takes longer."""
    module = "simulator.schedules.simulation"
    name = f"{module}-{closure_digest(f'{PACKAGE.name}.{module}')}"
    with suppress(OSError):  # of another user
        return any((kept_code() / name).glob("*.nbi"))
    return False
