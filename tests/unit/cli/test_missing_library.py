from __future__ import annotations

import argparse

import pytest

from slurm_rl_plugin.cli.entry import TRACEBACK, main, missing_library
from slurm_rl_plugin.cli.off_switch.by_hand import TAKE_BACK_BY_HAND
from tests.architecture.markdown_documents import TOP


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("onnxruntime", "slurm_rl_plugin"),
        ("prometheus_client.core", "slurm_rl_plugin"),
        ("numpy", "slurm_rl_plugin"),
        ("numba", "slurm_rl_plugin[simulate]"),
        ("sklearn.linear_model", "slurm_rl_plugin[train]"),
    ],
)
def test_it_names_what_brings_the_library(name: str, what: str) -> None:
    error = ModuleNotFoundError("No module", name=name)
    said = missing_library("evaluate", error)
    assert said == f"needs {name.partition('.')[0]}: pip install '{what}'."


def test_one_that_cannot_be_loaded_says_why() -> None:
    said = missing_library("run", ImportError("libx.so:\n no such file", name="onnxruntime"))
    assert said.startswith("onnxruntime cannot be loaded (libx.so: no such file): pip install")
    assert TAKE_BACK_BY_HAND not in said


def test_a_verb_of_the_way_out_says_what_does_it_by_hand() -> None:
    assert TAKE_BACK_BY_HAND in missing_library("release", ImportError("x"))


def test_a_fault_of_ours_while_an_experiment_is_stopped_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(options: argparse.Namespace) -> int:
        raise RuntimeError("unforeseen")

    monkeypatch.delenv(TRACEBACK, raising=False)
    monkeypatch.setattr("slurm_rl_plugin.cli.what_if.experiment.main", fails)
    assert main(["experiment", "stop"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("slurm-rl experiment: failed (RuntimeError: unforeseen)")
    assert said.count("\n") == 1
    assert TAKE_BACK_BY_HAND in said


def test_the_line_is_the_one_of_the_documents() -> None:
    for document in ("README.md", "docs/operators.md", "deploy/debian/prerm"):
        assert TAKE_BACK_BY_HAND in (TOP / document).read_text()
