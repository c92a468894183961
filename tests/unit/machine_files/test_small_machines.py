"""Configurations of a few lines, and the machine of each: the cases of tests/assets/machine_files.

A case names its files, whose names hold a point, maybe a change, and the error or the fields of the
machine that it expects, without what has its default. FOLDER is the folder of the files. What
`base` names holds for all cases of a file that do not name it themselves.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import read_cluster
from tests.architecture.markdown_documents import TOP


def cases() -> Iterator[object]:
    for path in sorted((TOP / "tests" / "assets" / "machine_files").glob("*.toml")):
        tables = tomllib.loads(path.read_text())
        base = tables.pop("base", {})
        for name, case in tables.items():
            yield pytest.param({**base, **case}, id=f"{path.stem}: {name}")


def plainly(value: Any) -> Any:
    """Dataclasses as what is not their default, tuples and sets as lists."""
    if is_dataclass(value):
        told = {each.name: (getattr(value, each.name), default_of(each)) for each in fields(value)}
        return {name: plainly(each) for name, (each, default) in told.items() if each != default}
    if isinstance(value, Association):
        value = dict(zip(value._fields, value, strict=True))
    if isinstance(value, Mapping):
        return {name: plainly(each) for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [plainly(each) for each in value]
    return "none" if value is None else value


def default_of(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


@pytest.mark.parametrize("case", list(cases()))
def test_a_small_machine(case: dict[str, Any], tmp_path: Path) -> None:
    files = {name: text for name, text in case.items() if "." in name}
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text)
    change, error = case.pop("change", None), case.pop("error", None)
    if error is not None:
        with pytest.raises(ConfigurationError, match=error) as caught:
            machine_of(tmp_path, change)
        assert "\n" not in str(caught.value)
        return
    machine = machine_of(tmp_path, change)
    expected = {name: each for name, each in case.items() if name not in files}
    found = {name: plainly(getattr(machine, name)) for name in expected}
    found["left_out"] = [each.replace(str(tmp_path), "FOLDER") for each in machine.left_out]
    # as JSON, since a whole number is no float
    assert in_json(found) == in_json({"left_out": [], **expected})


def machine_of(folder: Path, change: str | None) -> Machine:
    cluster = read_cluster(folder)
    return (cluster if change is None else changed(cluster, change)).machine


def in_json(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=1, sort_keys=True)
