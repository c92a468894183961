"""The package's syntax trees: what another user may have laid is opened by one function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.markdown_documents import TOP

PACKAGE = TOP / "slurm_rl_plugin"
#: Files that open otherwise, and why they may.
ALLOWED = {
    "whole_file.py": "has the functions",
    "hook/audit/log.py": "[audit] path may be /dev/stdout; the folder is the daemon's",
    "cli/entry.py": "/dev/null",
    "batch_systems/command_process.py": "has the function that starts Python",
}
#: Calls that change a file by its name, which another user may have given to another one.
CHANGES = {"write_text", "write_bytes", "chmod", "lchmod", "touch", "mkfifo", "mknod"}
#: Modules that run code which lies in a file.
UNPICKLES = {"pickle", "marshal", "shelve", "cloudpickle", "dill", "joblib"}
_WRITE_MODES = set("wax+")


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Each call and the last part of its function's name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func
            yield node, getattr(name, "attr", None) or getattr(name, "id", "")


def writes(call: ast.Call, name: str) -> bool:
    """Whether a call changes a file by its name: a descriptor that is open already is none."""
    if name in CHANGES:
        return True
    if name != "open" or ast.unparse(call.func) in {"zipfile.open", "webbrowser.open"}:
        return False
    if ast.unparse(call.func) == "os.open":
        return True
    words = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    modes = [each.value for each in words if isinstance(each, ast.Constant)]
    return any(isinstance(each, str) and _WRITE_MODES & set(each) for each in modes)


def faults(path: Path) -> Iterator[str]:
    """What a module does that must go through `whole_file`."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [each.name for each in getattr(node, "names", []) if isinstance(each, ast.alias)]
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.append(getattr(node, "module", "") or "")
            yield from (f"imports {each}" for each in UNPICKLES & set(names))
        of_sys = isinstance(node, ast.ImportFrom) and node.module == "sys"
        if (of_sys and "executable" in names) or (
            isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
        ):
            yield "starts Python by other means than `start_python`"
    for call, name in calls(path):
        pickled = {each.arg: ast.unparse(each.value) for each in call.keywords}.get("allow_pickle")
        if pickled not in (None, "False"):
            yield f"line {call.lineno}: allow_pickle"
        if writes(call, name):
            yield f"line {call.lineno}: changes a file by its name"


def test_own_files_are_opened_by_one_function_and_nothing_is_unpickled() -> None:
    found = {str(path.relative_to(PACKAGE)): list(faults(path)) for path in PACKAGE.rglob("*.py")}
    wrong = {name: each for name, each in found.items() if each and name not in ALLOWED}
    assert wrong == {}
    assert all(found[name] for name in ALLOWED)
