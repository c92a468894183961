"""`site-utilities`: brokers over three simulated sites, side by side, as a study."""

from __future__ import annotations

from functools import partial

from slurm_rl_plugin.learning.export.manifest import file_checksum
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.site_utilities_2008.experiment import reproduce
from slurm_rl_plugin.papers.site_utilities_2008.figures import drawings_of
from slurm_rl_plugin.papers.site_utilities_2008.models import FULL_SIZE, QUICK_SIZE
from slurm_rl_plugin.papers.study.lpc_segments import read_lpc
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome

#: The local scheduler of every site: the network of the 2008 paper.
_LOCAL = "reactive-grids"


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
