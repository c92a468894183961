"""A utility model whose answer is plain: who has used less than his share is worth more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.site_utility import export_site_utility
from slurm_rl_plugin.policies.network import fixed_scaler, network_from_parameters, parameter_count

MEDIANS = ClassMedian(interactive_median=60.0, batch_median=3600.0)


def write_site_utility_model(path: Path) -> Path:
    """The model whose score falls with usage over share, whatever else is seen; its path."""
    parameters = np.zeros(parameter_count(SITE, 1))
    parameters[-len(SITE.jobs) :][SITE.jobs.index("share_doublings")] = -1.0
    network = network_from_parameters(SITE, parameters, hidden=1, scaler=fixed_scaler(SITE))
    export_site_utility(network, path, MEDIANS)
    return path
