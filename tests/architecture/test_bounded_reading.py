"""What a file or another program may hold is bounded: by the syntax of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.markdown_documents import TOP

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
    ("configuration/generated.py", "read_text"): "a document of ours, when it is made",
    ("hook/daemon/lock.py", "read_text"): "files of /proc",
    ("simulator/kernel/kept_code.py", "read_text"): "modules of ours",
    ("cli/demo/demo.py", "read"): "metrics of the demo's own daemon",
}
#: The only modules that start another program.
STARTS_CHILDREN = {
    "batch_systems/command_process.py",
    "services/model_trial.py",
    "cli/compile.py",
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
        if not name.startswith("papers/"):  # a study of ours on files that it has made
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
