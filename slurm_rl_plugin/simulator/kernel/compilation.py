"""How the simulator is compiled, and where compiled code is kept between runs."""

from __future__ import annotations

import hashlib
import os
import types
from pathlib import Path
from typing import Any

import numba
from numba import njit

#: Folders with sources that can end up in compiled code.
_COMPILED_FOLDERS = (
    "brokers",
    "features",
    "policies",
    "simulator",
    "utility",
)


def source_digest(*more: str) -> str:
    """Digest of every source that can end up in compiled code, and of other folders, 16 digits.

    numba looks only at a function's own file when it decides whether its cached machine code is
    stale, not at the files of the functions it calls; hence one cache folder a state of sources.

    Args:
        more: folders of the package besides those, with what lies below them.
    """
    package = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(numba.__version__.encode())
    for folder in (*_COMPILED_FOLDERS, *more):
        for source in sorted((package / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    digest.update((package / "units.py").read_bytes())
    return digest.hexdigest()[:16]


def _keep_compiled_code() -> None:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    numba.config.CACHE_DIR = str(Path(home) / "slurm-rl" / f"compiled-{source_digest()}")


_keep_compiled_code()


def compiled_before() -> bool:
    """Whether an earlier run kept compiled code of these sources: a first one takes longer."""
    return any(Path(str(numba.config.CACHE_DIR)).rglob("*.nbi"))


# without the interpreter lock several simulations run beside each other in threads
compiled: Any = njit(cache=True, nogil=True)
#: For what is called for every job of a queue: a call would pass every array of the cluster.
compiled_inline: Any = njit(cache=True, nogil=True, inline="always")
#: For what makes and returns no array, and calls only such functions. Its caller holds its arrays
#: all the while, so that none is counted; else each call counts every array of every argument up
#: and down, which took two thirds of the market's time.
compiled_borrowing: Any = njit(cache=True, nogil=True, _nrt=False)


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
    return compiled(copy)
