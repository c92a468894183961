"""Compiled code is kept between runs, by what it computes: a docstring compiles nothing again.

numba looks only at a function's own file when it decides whether its kept machine code is stale,
not at the files of the functions it calls, and it looks at every byte of it.
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
import sys
import tempfile
from collections.abc import Iterator, Set
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
    """Digest of all that a module computes with, 16 digits; docstrings and comments are left out.

    Args:
        module: dotted name below this package, `slurm_rl_plugin.simulator.kernel.dispatch`.
    """
    digest = hashlib.sha256()
    for name in sorted(import_closure(module)):
        digest.update(f"{name}\n{_read(name)[0]}\n".encode())
    return digest.hexdigest()[:16]


def import_closure(module: str) -> set[str]:
    """The module and every module of this package that it imports, at any remove."""
    found, waiting = {module}, [module]
    while waiting:
        new = set(_read(waiting.pop())[1]) - found
        found |= new
        waiting += new
    return found


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's code without docstrings, and the modules of ours that it imports itself."""
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

#: States of a module whose code is kept beside each other: branches, releases.
_STATES = 4
#: Names another folder of code that was compiled for all users; "" for none.
FOR_ALL = "SLURM_RL_COMPILED"


class KeptByClosure:
    """Tells numba where the code of a function of ours is kept; it calls this a cache locator.

    A folder for each module and state of what it computes with, so that branches, clones and
    machines of one CPU type share what they have in common.
    """

    def __init__(self, function: Any, source: str) -> None:
        self._py_file = source  # numba names it in its warnings
        module = getattr(function, "compiled_in", function.__module__)
        self._digest = closure_digest(module)
        self._module = module.removeprefix(f"{PACKAGE.name}.")
        self._folder = kept_code() / f"{self._module}-{self._digest}"

    @classmethod
    def from_function(cls, function: Any, source: str) -> KeptByClosure | None:
        """The place for a function; None for one that is not ours, or where none can be made."""
        if not function.__module__.startswith(f"{PACKAGE.name}."):
            return None
        place = cls(function, source)
        try:
            place.ensure_cache_path()
        except OSError:
            return None
        return place

    def ensure_cache_path(self) -> None:
        """Make the folder, in the place of the oldest where the module has enough.

        Raises:
            OSError: it cannot be made, or not be written into.
        """
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            states = sorted(kept_code().glob(f"{self._module}-*"), key=_made)
            for state in states[:-_STATES]:
                shutil.rmtree(state, ignore_errors=True)
        if not os.access(self._folder, os.W_OK):
            raise PermissionError(self._folder)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What must be as it was when the code was compiled."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Nothing: numba tells functions of one name in a module apart by their byte code."""
        return ""


class _OwnCode(IndexDataCacheFile):  # type: ignore[misc]
    """The code of a function, which numba unpickles: no file that another user may have made.

    Args:
        owners: users besides this one and root who may have made them.
        words: of `IndexDataCacheFile`.
    """

    _index_path: Any

    def __init__(self, *words: Any, owners: Set[int] = frozenset()) -> None:
        super().__init__(*words)
        self._owners = owners
        self._data: int | None = None

    def _load_index(self) -> Any:
        named = self._index_path
        try:  # numba opens, and closes, the very file that has been looked at
            self._index_path = own_file(Path(named), owners=self._owners)
            return super()._load_index()
        except OSError:
            return {}
        finally:
            self._index_path = named

    def _load_data(self, name: str) -> Any:
        self._data = own_file(Path(self._data_path(name)), owners=self._owners)
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
        # others may read it, and none may change it whatever the umask
        write_whole(Path(path), content.getvalue(), sync=False, mode=0o644)


class KeptFunction(FunctionCache):  # type: ignore[misc]
    """Where the code of a function is kept; what this user has not is read where all find it.

    That is only read, and each time anew, so that nobody goes on with what was there once.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _OwnCode(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        own = super()._load_overload(sig, target_context)
        place, theirs, locator = Path(self._cache_path), code_for_all(), self._impl.locator
        if own is not None or theirs is None or theirs == place.parent:
            return own
        if not isinstance(locator, KeptByClosure):
            return None
        file = _OwnCode(
            str(theirs / place.name),
            self._impl.filename_base,
            locator.get_source_stamp(),
            owners=_installer(),
        )
        try:
            found = file.load(self._index_key(sig, target_context.codegen()))
        except Exception:  # noqa: BLE001 - a broken file raises anything; it is compiled anew
            return None
        return None if found is None else self._impl.rebuild(target_context, found)


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def kept_code() -> Path:
    """The folder with all compiled code; it may be removed at any time."""
    return Path(str(numba.config.CACHE_DIR))


def named_for_all() -> Path | None:
    """The folder for code that is compiled for all users of this environment; None for none."""
    named = os.environ.get(FOR_ALL)
    if named is None:
        return Path(sys.prefix) / "share" / "slurm-rl" / "compiled"
    return Path(named).absolute() if named else None


def code_for_all() -> Path | None:
    """The same; None also where another user than its owner, or the environment's, may change it.

    Compiled code is code: a user who may change it acts as everybody who runs it.
    """
    folder = named_for_all()
    return folder if folder is not None and _may_be_run(folder) else None


@cache
def _may_be_run(folder: Path) -> bool:
    try:
        own_folder(folder, owners=_installer(), make=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        logger.warning("compiled code in %s is not used: %s.", folder, error.strerror)
        return False
    return True


def _installer() -> Set[int]:
    """The user who installed this Python, and so runs code as everybody who uses it."""
    return {Path(sys.prefix).stat().st_uid}


def keep_compiled_code() -> None:
    """Let numba keep the code of our functions, below NUMBA_CACHE_DIR where that is set."""
    try:
        named = os.environ.get("NUMBA_CACHE_DIR")
        if not named:
            home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
            numba.config.CACHE_DIR = str(Path(home) / "slurm-rl" / "compiled")
        # each file in it is looked at as well: nothing that lay there before needs to go
        own_folder(kept_code(), way=False, shut=not named)
        if not os.access(kept_code(), os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(kept_code()))
    except (OSError, RuntimeError) as error:  # of a user without a home
        _keep_for_this_run(str(error))
    locators = FunctionCache._impl_class._locator_classes
    if KeptByClosure not in locators:
        locators.insert(0, KeptByClosure)


def _keep_for_this_run(why: str) -> None:
    logger.warning(
        "compiled code cannot be kept (%s), so this run compiles for itself alone: name a folder "
        "by NUMBA_CACHE_DIR.",
        why,
    )
    numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="slurm-rl-compiled-")
    atexit.register(shutil.rmtree, numba.config.CACHE_DIR, ignore_errors=True)


def compiled_before() -> bool:
    """Whether the code is kept, by an earlier run or for all users: a first one takes longer."""
    module = "simulator.schedules.simulation"
    name = f"{module}-{closure_digest(f'{PACKAGE.name}.{module}')}"
    return any(
        _has_code(folder / name) for folder in (kept_code(), code_for_all()) if folder is not None
    )


def _has_code(folder: Path) -> bool:
    with suppress(OSError):  # another user's
        return any(folder.glob("*.nbi"))
    return False
