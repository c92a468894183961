"""A ratio measured in interleaved pairs, with the interval that the pairs allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 10_000


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, object]:
    """Geometric mean of the ratios of pairs, with a 95 % percentile bootstrap over the pairs."""
    ratios = np.log(np.asarray(over) / np.asarray(under))
    rng = np.random.default_rng(1)
    means = rng.choice(ratios, (DRAWS, len(ratios))).mean(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975))).tolist()
    return {"ratio": float(np.exp(ratios.mean())), "ci95": [low, high], "pairs": len(ratios)}
