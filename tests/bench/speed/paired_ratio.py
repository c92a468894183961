"""A ratio measured in interleaved pairs, with the interval that the pairs allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, object]:
    """Geometric mean of the ratios of pairs, with a 95 % percentile bootstrap over the pairs."""
    # measurements import this beside another release, which need not have it
    from slurm_rl_plugin.measure.intervals import (  # noqa: PLC0415
        ratio_over_windows,
    )

    found = ratio_over_windows(np.asarray(over), np.asarray(under), np.random.default_rng(1))
    ratio = found.geometric_mean
    return {"ratio": ratio, "ci95": list(found.ci95 or (ratio, ratio)), "pairs": len(over)}
