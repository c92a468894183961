"""The reward of 2008 as printed: the utility of the job that starts, whatever it makes others wait.

A batch job of many hours has utility near 1 however it waits (eq. 3 scales with its run time) and
an interactive one that waited has none left. Waiting time is not among the 11 inputs, so the
network sees only that long jobs are well paid: it learns to start the longest job first. What a
start takes from the jobs left waiting, the difference reward, is what orders them shortest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slurm_rl_plugin.features.reactive_grid import grid_job_features
from slurm_rl_plugin.papers.reactive_grids_2008.tables import BASELINES, FIFO, RL
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Printed
from slurm_rl_plugin.papers.study.paired_trials import LONGEST_FIRST, PairedTrial
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import FloatArray

#: The reward alone is as printed, and all settings are.
LITERAL, PRINTED = "RL, reward as printed", "RL, all as printed"
#: A crowded grid: 3 minutes to the next release, one machine idle, 10 hours of work for all
#: machines, running jobs at .9 utility, service by the targets.
_CROWDED = np.array([0.38, 0.02, 0.26, 0.9, 0.7, 0.2, 0.05, 0.05])
#: "Divided by more than 8" at p = .2.
_PRINTED_FACTOR = 8.0


def scores_by_run_time(network: QNetwork, run_times: FloatArray) -> FloatArray:
    """Scores of jobs of account 0 on a crowded grid; interactive below 900 s.

    Args:
        network: of the 2008 inputs.
        run_times: seconds, shape [n].

    Returns:
        float64[n], standardised: only their order counts.
    """
    jobs = np.array([grid_job_features(each, float(each < 900.0), 0.0) for each in run_times])
    scores = network.scores(_CROWDED, jobs)
    return np.asarray((scores - scores.mean()) / max(float(scores.std()), 1e-12))


def preference_for_long_jobs(network: QNetwork) -> float:
    """Rank correlation of score and run time: 1 is longest first, -1 shortest first."""
    run_times = np.geomspace(10.0, 40_000.0, 200)
    ranks = np.argsort(np.argsort(scores_by_run_time(network, run_times)))
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def claims_of_literal_reward(
    trial: PairedTrial, networks: Mapping[str, QNetwork]
) -> Iterator[Claim]:
    """That the reward as printed does not give what the paper reports.

    Args:
        trial: FIFO, RL, LITERAL and PRINTED on the load with p = .2.
        networks: of RL, LITERAL and PRINTED.
    """
    for name in (LITERAL, PRINTED):
        yield _claim(trial, name, networks[name], networks[RL])


def _claim(trial: PairedTrial, name: str, literal: QNetwork, learned: QNetwork) -> Claim:
    factor = trial.ratio_of_means("mean wait", FIFO, name)
    slope = preference_for_long_jobs(literal)
    because = (
        f"its scores and the run times have rank correlation {slope:+.2f} "
        f"({preference_for_long_jobs(learned):+.2f} with the difference reward), for long batch "
        "jobs keep utility near 1 and nothing in the reward speaks of the jobs left waiting"
    )
    means = trial.means("mean wait", (RL, LONGEST_FIRST, *BASELINES))
    return Claim(
        cell=Cell("Reward as printed, p = 0.2", f"{FIFO} / {name}", "mean wait"),
        measured=factor,
        printed=Printed(value=_PRINTED_FACTOR, unit=1.0, text="8"),
        baselines={f"{FIFO} / {each}": means[FIFO] / value for each, value in means.items()},
        judged=Judgement(factor.ends[1] >= _PRINTED_FACTOR, because),
    )
