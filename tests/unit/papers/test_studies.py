"""The registry of studies, what may be asked of one, and the store of their results."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.measure.intervals import of_samples
from slurm_rl_plugin.papers.registry import STUDIES
from slurm_rl_plugin.papers.study.result_store import ResultStore, digest_of, stem_of
from slurm_rl_plugin.papers.study.study import Asked

#: A module whose code shapes a figure.
MODULE = "slurm_rl_plugin.units"


def asked(**more: Any) -> Asked:
    words: dict[str, Any] = {
        "paper": "some-paper",
        "usual_seeds": 30,
        "seeds": None,
        "traces": None,
        "traces_given": False,
        "models": Path("models"),
        "policy": None,
        "quick": False,
        "search": False,
        "shipped": Path,
        "bar": lambda title, parts: nullcontext(lambda more: None),
        "say": lambda sentence: None,
    }
    return Asked(**{**words, **more})


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_found_and_takes_what_is_asked(name: str) -> None:
    assert list(inspect.signature(STUDIES[name].load().run).parameters) == ["asked"]


def test_seeds_are_the_usual_ones_or_those_asked_for_but_not_too_few() -> None:
    assert asked().number_of_seeds() == 30
    assert asked(seeds=7).number_of_seeds() == 7
    with pytest.raises(ConfigurationError, match="--seeds 1: an interval over the seeds needs"):
        asked(seeds=1).number_of_seeds()
    assert asked(seeds=1).number_of_seeds(fewest=1, why="give at least 1") == 1


def test_what_is_missing_or_not_for_a_study_is_said() -> None:
    told: list[str] = []
    assert asked(say=told.append).traces_or_less("the segments are left out") is None
    assert told == ["No traces are named: the segments are left out."]
    with pytest.raises(ConfigurationError, match="give the logs"):
        asked().traces_or_refuse("give the logs.")
    with pytest.raises(ConfigurationError, match="--policy is not for some-paper: it has none"):
        asked(policy=Path("a.onnx")).refuse_policy("it has none")


def test_a_figure_is_measured_once_and_another_key_has_another_file(tmp_path: Path) -> None:
    store, measured = ResultStore(tmp_path), []

    def measure() -> dict[str, float]:
        measured.append(1)
        return {"J": 0.1 + 0.2}

    stems = [
        stem_of("a", {"seed": seed}, digest_of(np.arange(3)), module=MODULE) for seed in (1, 1, 2)
    ]
    assert [store.figures(stem, measure) for stem in stems] == [{"J": 0.1 + 0.2}] * 3
    assert len(measured) == len({*stems}) == len([*tmp_path.iterdir()]) == 2
    assert stem_of("a", digest_of(np.arange(3)), module=MODULE) != stem_of(
        "a", digest_of(np.arange(3) + 1), module=MODULE
    )


def test_independent_samples_are_drawn_as_scipy_draws_them() -> None:
    values = np.random.default_rng(1).normal(size=20)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=1000, method="percentile", rng=np.random.default_rng(0)
    )
    ours = of_samples(values, lambda drawn: drawn.mean(axis=-1))
    np.testing.assert_allclose(ours, theirs.bootstrap_distribution, rtol=1e-12)
