"""`site-utilities`, a study: brokers over three simulated sites, side by side; figures."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.learning.export.manifest import file_checksum
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.site_utilities_2008.brokers import BASELINES, SITE_UTILITIES
from slurm_rl_plugin.papers.site_utilities_2008.experiment import SiteUtilities, reproduce
from slurm_rl_plugin.papers.site_utilities_2008.load import SITES
from slurm_rl_plugin.papers.site_utilities_2008.models import FULL_SIZE, QUICK_SIZE
from slurm_rl_plugin.papers.study.claims import measure
from slurm_rl_plugin.papers.study.lpc_segments import read_lpc
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome

#: The local scheduler of every site: the network of the 2008 paper.
_LOCAL = "reactive-grids"


def drawings_of(found: SiteUtilities) -> Drawings:
    """What site utilities gain, and what every broker reached."""
    return {
        "site-utilities-gain.png": lambda: _gains(found),
        "site-utilities-brokers.png": lambda: _brokers(found),
    }


def _gains(found: SiteUtilities) -> Any:
    """J of site utilities less that of each baseline: a point a seed, and their mean."""
    figure, axis = plt.subplots(figsize=(8, 2.8), layout="constrained")
    for place, name in enumerate(reversed(BASELINES)):
        gain = found.figures[SITE_UTILITIES]["J"] - found.figures[name]["J"]
        mean = measure(gain)
        low, high = mean.ends
        axis.plot(gain, np.full(len(gain), place - 0.15), ".", color="tab:grey", alpha=0.6)
        axis.plot([low, high], [place + 0.1, place + 0.1], color="C0", linewidth=3)
        axis.plot(mean.value, place + 0.1, "o", color="C0")
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(BASELINES)), [f"less {name}" for name in reversed(BASELINES)])
    axis.set_ylim(-0.5, len(BASELINES) - 0.5)
    axis.set_xlabel("difference in J of the same jobs: mean with 95 % interval; grey: seeds")
    return figure


def _brokers(found: SiteUtilities) -> Any:
    """U, F and J of each broker, and what part of the routed jobs each site got."""
    names = list(found.figures)
    figure, axes = plt.subplots(
        1, 2, figsize=(12, 3.6), sharey=True, layout="constrained", width_ratios=(3, 2)
    )
    places = np.arange(len(names))
    for number, column in enumerate(("U", "F", "J")):
        for place, name in enumerate(names):
            mean = measure(found.figures[name][column])
            low, high = mean.ends
            height = place + 0.22 * (number - 1)
            label = column if place == 0 else None
            axes[0].plot([low, high], [height, height], color=f"C{number}", linewidth=2)
            axes[0].plot(mean.value, height, "o", color=f"C{number}", label=label)
    axes[0].set_yticks(places, names)
    axes[0].invert_yaxis()
    axes[0].set_xlabel("mean over all jobs of all sites, 95 % interval over the seeds")
    axes[0].legend(loc="best")
    left = np.zeros(len(names))
    for number, site in enumerate(SITES):
        part = np.array([found.routed[name][:, number].mean() for name in names])
        label = f"{site.name}: {site.capacity} processors"
        axes[1].barh(places, part, left=left, color=f"C{number + 3}", label=label)
        left += part
    axes[1].set_xlabel("part of the routed jobs")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper right", ncols=len(SITES))
    return figure


def run(asked: Asked) -> Outcome:
    """Fit the sites' models, then route with every broker."""
    needed = "no traces: give the directory of LPC-EGEE, or name it in SLURM_RL_TRACES."
    traces, seeds = asked.traces_or_refuse(needed), asked.number_of_seeds()
    local = asked.policy or asked.shipped(_LOCAL)
    network, log = import_network(local), read_lpc(traces)
    size = QUICK_SIZE if asked.quick else FULL_SIZE
    with asked.bar("fitting and routing", size.steps + seeds) as add:
        store = ResultStore(asked.models)
        found = reproduce(log, network, seeds, size, store, partial(add, 1))
    facts = {"local_scheduler": file_checksum(local), "models": dict(found.models)}
    return Outcome(
        claims=found.claims,
        seeds=range(seeds),
        facts=facts,
        drawings=drawings_of(found),
        manifest={"seeds": seeds, **facts},
    )
