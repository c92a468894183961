"""What a module computes with, as one digest: its code and that of every module it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
