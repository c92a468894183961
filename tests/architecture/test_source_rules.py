"""Rules that the sources keep: bounded reading, own files by one function, a test a threat."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP, code_spans, section, table_rows

PACKAGE = TOP / "slurm_rl_plugin"
#: Each reads whatever there is: `whole_file.read_whole` and `command_process.exchange` do not.
UNBOUNDED = frozenset(
    {
        *("read_text", "read_bytes", "readlines", "communicate", "check_output"),
        *("getoutput", "getstatusoutput", "capture_output", "popen", "fromfile"),
    }
)
#: Where a function reads on and on, and why it may.
ALLOWED = {
    ("accounting/log_file.py", "read_bytes"): "a LOG has any size",
    ("configuration/generated.py", "read_text"): "one of our documents, when it is made",
    ("hook/daemon/lock.py", "read_text"): "files of /proc",
    ("simulator/kernel/kept_code.py", "read_text"): "our own modules",
    ("cli/demo/demo.py", "read"): "metrics of the demo's own daemon",
}
#: The only modules that start another program.
STARTS_CHILDREN = {
    "batch_systems/command_process.py",
    "services/model_trial.py",
}


def unbounded_in(tree: ast.AST) -> Iterator[str]:
    """Names of the calls that read without a bound, `read` for `read()` of an opened file."""
    opened = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "open" in ast.unparse(item.context_expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        yield from (str(word.arg) for word in node.keywords if word.arg in UNBOUNDED)
        if not isinstance(node.func, ast.Attribute) or ast.unparse(node.func.value) == "super()":
            continue  # what it overrides has another meaning
        if node.func.attr in UNBOUNDED:
            yield node.func.attr
        is_whole = not node.args or (node.func.attr == "read" and ast.unparse(node.args[0]) == "-1")
        if node.func.attr == "read" and is_whole and ast.unparse(node.func.value) in opened:
            yield "read"


def of_package() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith("papers/"):  # one of our studies, on files that it has made
            yield name, ast.parse(path.read_text())


def test_no_module_reads_without_a_bound() -> None:
    found = {(name, each) for name, tree in of_package() for each in unbounded_in(tree)}
    assert found - set(ALLOWED) == set(), "use whole_file.read_whole or command_process.exchange"
    assert set(ALLOWED) - found == set(), "take out what is not needed any more"


def test_only_these_modules_start_other_programs() -> None:
    found = {
        name
        for name, tree in of_package()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) and any(each.name == "subprocess" for each in node.names)
    }
    assert found == STARTS_CHILDREN


#: Files that open otherwise, and why they may.
ALLOWED_OWN = {
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
    wrong = {name: each for name, each in found.items() if each and name not in ALLOWED_OWN}
    assert wrong == {}
    assert all(found[name] for name in ALLOWED_OWN)


ATTACKS = TOP / "tests" / "attacks"
THREATS = [
    code_spans(cells[-1])[0]
    for cells in table_rows(section(TOP / "docs" / "security.md", "Threats, each with its test"))
]


@pytest.mark.parametrize("threat", THREATS)
def test_each_threat_has_a_test(threat: str) -> None:
    module, _, name = threat.partition("::")
    assert re.search(rf"def {name}\(", (ATTACKS / module).read_text())


def test_every_attack_stands_among_the_threats() -> None:
    modules = {str(path.relative_to(ATTACKS)) for path in ATTACKS.glob("*/test_*.py")}
    on_real_slurm = {"submitting_user/test_age_on_real_slurm.py"}  # the same attacks once more
    assert modules - on_real_slurm == {threat.partition("::")[0] for threat in THREATS}
