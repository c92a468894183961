"""Names, sizes and docstrings of the package, and the tree of errors."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from slurm_rl_plugin import errors
from tests.architecture.markdown_documents import TOP

MODULES = sorted((TOP / "slurm_rl_plugin").rglob("*.py"))
EMPTY_NAMES = {
    *("utils", "helpers", "common", "misc", "base", "core", "manager", "handler", "engine"),
}


def test_the_package_is_looked_at() -> None:
    assert len(MODULES) > 50


def test_no_module_or_package_has_a_name_that_says_nothing() -> None:
    parts = {part for path in MODULES for part in path.relative_to(TOP).with_suffix("").parts}
    assert parts & EMPTY_NAMES == set()


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {
        path.relative_to(TOP).as_posix(): len(path.read_text().splitlines()) for path in MODULES
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_a_folder_shows_about_a_dozen_names() -> None:
    shown = {path.parent for path in MODULES}
    for folder in shown:
        names = [
            each
            for each in folder.iterdir()
            if each.name not in ("__init__.py", "__pycache__", "py.typed")
        ]
        assert len(names) <= 20, folder.relative_to(TOP)


def docstrings() -> Iterator[tuple[str, str]]:
    """Place of each docstring of a class or function, and its first paragraph."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
                yield f"{path.relative_to(TOP)}:{node.name}", paragraph


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def test_a_docstring_says_something_itself() -> None:
    """Neither `See X` nor the function's own name once more, with an article or without."""
    empty = []
    for place, text in docstrings():
        said = [word for word in words_of(text) if word not in ("a", "an", "the")]
        if text.startswith("See ") or (text and said == words_of(place.rpartition(":")[2])):
            empty.append(place)
    assert empty == []


def test_what_declares_options_says_which() -> None:
    declared = [place for place, text in docstrings() if text.startswith("Declare the options")]
    assert declared == []


def test_no_two_classes_of_the_package_have_one_name() -> None:
    """Private ones and those of `papers`, where each study has its own, are left out."""
    found: dict[str, list[str]] = {}
    for path in MODULES:
        if "papers" not in path.parts:
            for node in ast.parse(path.read_text()).body:
                for name in public_types(node):
                    found.setdefault(name, []).append(str(path.relative_to(TOP)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def public_types(node: ast.stmt) -> list[str]:
    """The class that a statement of a module defines, or the name that it gives to a type."""
    if isinstance(node, ast.ClassDef):
        return [] if node.name.startswith("_") else [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    return [name for name in names if name[0].isupper() and not name.isupper()]


def error_classes() -> list[type]:
    return [each for _, each in inspect.getmembers(errors, inspect.isclass)]


def test_every_error_derives_from_ours_and_says_what_to_do() -> None:
    classes = [each for each in error_classes() if each.__module__ == errors.__name__]
    assert len(classes) > 10
    for each in classes:
        assert issubclass(each, errors.SlurmRLError), each
        assert each.__doc__, each


def test_no_exception_is_defined_elsewhere() -> None:
    """An error that a user can meet stands in errors.py, so that the command line knows it."""
    strangers = []
    for path in MODULES:
        if path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    strangers.append(f"{path.name}: {node.name}")
    assert strangers == []


def test_every_verb_of_a_site_reads_its_configuration_in_the_same_way() -> None:
    """Else variables and flags would count for one verb and not for another.

    Training and comparison take files only, so that the same command makes the same model.
    """
    package = TOP / "slurm_rl_plugin"
    readers = {
        path.relative_to(package).as_posix()
        for path in MODULES
        if "read_configuration(" in path.read_text()
    }
    assert readers == {
        "configuration/reading/precedence.py",
        "cli/assembly/configuration_arguments.py",
        "cli/logs/named_log.py",
        "cli/train/train.py",
        "cli/look/show_config.py",  # for the defaults
    }
