"""`slurm-rl experiment report --committee`: the page of an experiment for the users' committee."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.what_if.committee.two_cases import experiment_page
from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_watch import kept_trial
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole


def write_page(site: DeclaredExperiment, path: Path) -> None:
    """Write the page of the experiment that is declared.

    Args:
        site: on which it is.
        path: of the page.

    Raises:
        ConfigurationError: none is, or no pair of its blocks is over.
        BatchSystemError: accounting does not answer.
    """
    declared, standing = site.declared()
    trial = kept_trial(site, declared)
    if trial is None:
        raise ConfigurationError("no block of the experiment is over yet: try again later.")
    whole = ExperimentSite(configuration=site.configuration)
    look = whole.look()
    assert look is not None  # of any age
    cluster = whole.cluster(look, declared.candidate)
    over = min(declared.closed(look.now), len(trial.costs))
    with parts_bar("replaying blocks", max(over, 1)) as progress:
        page = experiment_page(
            declared,
            cluster.times,
            cluster,
            trial.findings(),
            look.prepared.accounts,
            standing.reason or trial.gain() or "It goes on, and nothing is beyond chance yet.",
            now=declared.blocks[over - 1].end,
            resources=() if look.prepared.machine is None else look.prepared.machine.resources,
            progress=progress,
        )
    write_whole(path, page)
