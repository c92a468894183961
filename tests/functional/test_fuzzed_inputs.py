"""A short round of `make fuzz`: some inputs of every target; all of them come again in each run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import PolicyError
from slurm_rl_plugin.policies.q_network import load_q_network
from tests.architecture.markdown_documents import TOP
from tests.bench.fuzz.service_targets import RaisesBroken
from tests.bench.fuzz.targets import TARGETS

#: Inputs of each target: those that take longer get fewer.
INPUTS = {"conversion": 8, "any log": 100, "configuration": 60, "model": 60, "parquet": 60}


@pytest.fixture(autouse=True)
def _broken_is_raised() -> Iterator[None]:
    names = ("brokers.live.offer_pages", "metrics.pages")
    loggers = [logging.getLogger(f"slurm_rl_plugin.{name}") for name in names]
    handler = RaisesBroken()
    for each in loggers:
        each.addHandler(handler)
    yield
    for each in loggers:
        each.removeHandler(handler)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_the_documented_errors(name: str, folder: Path) -> None:
    target, generate = TARGETS[name].build(folder), TARGETS[name].generator(folder, 1)
    sound = 0
    for number in range(INPUTS.get(name, 200)):
        sound += target(generate(number), folder)
    assert sound  # the harm leaves some inputs sound, so that what comes behind is reached too


@pytest.mark.parametrize("name", TARGETS)
def test_the_sound_inputs_are_taken(name: str, folder: Path) -> None:
    target = TARGETS[name].build(folder)
    taken = [target(each, folder) for each in TARGETS[name].seeds(folder)]
    assert any(taken)


@pytest.mark.parametrize("name", [name for name, each in TARGETS.items() if each.kept])
def test_kept_inputs_are_taken_again(name: str, folder: Path) -> None:
    target, kept = TARGETS[name].build(folder), TARGETS[name].kept_inputs()
    for content in kept:
        target(content, folder)
    assert len(kept) >= 5
    assert sum(map(len, kept)) <= 32_768  # of six targets: below 200 kB


@pytest.mark.parametrize("name", [b"jobs_centred", b"schema_name"])
def test_a_model_whose_words_are_no_text_is_refused_without_a_word_of_the_library(
    name: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = (TOP / "policy_models/default.onnx").read_bytes()
    assert name in content
    path = tmp_path / "model.onnx"
    path.write_bytes(content.replace(name, b"\xff" + name[1:]))
    with suppress(PolicyError):  # a node may be called anything: then the model is sound
        load_q_network(path)
    assert capfd.readouterr().out == ""


def test_an_accept_that_the_library_cannot_read_is_answered(folder: Path) -> None:
    accept = b"Accept: application/openmetrics-text; version=1Unknown.0.0"
    assert TARGETS["metrics"].build(folder)(
        b"GET /metrics HTTP/1.1\r\n" + accept + b"\r\n\r\n", folder
    )
