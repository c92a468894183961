"""The registry of studies, what may be asked of one, and the store of their results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from slurm_rl_plugin.measure.intervals import of_samples
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
