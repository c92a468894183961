"""`slurm-rl reproduce`: run a paper's experiment again, its figures beside ours."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.reproduce.ablation import ABLATION, reproduce_ablation
from slurm_rl_plugin.cli.reproduce.claim_tables import (
    print_claims,
    print_reproduction,
    print_sampled_claims,
)
from slurm_rl_plugin.cli.reproduce.economic import (
    DEFAULT_ECONOMIC_SEEDS,
    ECONOMIC,
    reproduce_economic,
)
from slurm_rl_plugin.cli.reproduce.heldout import HELDOUT_STUDY, reproduce_heldout
from slurm_rl_plugin.cli.reproduce.learned_papers import (
    DEFAULT_SEEDS,
    LEARNED_PAPERS,
    reproduce_learned,
)
from slurm_rl_plugin.cli.reproduce.learning_agents import LEARNING_AGENTS, reproduce_learning_agents
from slurm_rl_plugin.cli.reproduce.site_utilities import SITE_UTILITIES, reproduce_site_utilities
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.heuristics import experiment as heuristics
from slurm_rl_plugin.papers.rlscheduler_2020 import experiment as rlscheduler
from slurm_rl_plugin.papers.rlscheduler_2020 import search as rlscheduler_search
from slurm_rl_plugin.papers.study.claims import Claim
from slurm_rl_plugin.papers.study.sampled_claims import SampledClaim

#: Where the traces are when the command line does not say it.
_TRACES_VARIABLE = "SLURM_RL_TRACES"
_DEFAULT_SEEDS = 100
_SEARCH_SEEDS = 5
#: Experiments with options of their own; each is given the folder of traces, where one is named.
_STUDIES: Mapping[str, Callable[[argparse.Namespace, Path | None], int]] = {
    **dict.fromkeys(LEARNED_PAPERS, reproduce_learned),
    HELDOUT_STUDY: reproduce_heldout,
    ABLATION: reproduce_ablation,
    ECONOMIC: reproduce_economic,
    LEARNING_AGENTS: reproduce_learning_agents,
    SITE_UTILITIES: reproduce_site_utilities,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    papers = (*_STUDIES, "heuristics", "rlscheduler")
    parser.add_argument("paper", choices=papers, help="which experiment")
    parser.add_argument(
        "traces",
        nargs="?",
        type=Path,
        metavar="TRACES_DIR",
        help=f"directory of the paper's job logs (default: ${_TRACES_VARIABLE})",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help=f"generated logs of each kind (default: {DEFAULT_SEEDS}, heuristics "
        f"{_DEFAULT_SEEDS}, economic {DEFAULT_ECONOMIC_SEEDS}; rlscheduler has none), or searches "
        f"of --search on each trace (default: {_SEARCH_SEEDS})",
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="rlscheduler: also search a score on the very sequences it is measured on "
        "(in-sample; some minutes)",
    )
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="keep trained networks here, so that a second run need not train; economic and "
        "learning-agents: what was measured, so that an interrupted run goes on",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="MODEL.onnx",
        help="take this network instead of training one, for reactive-grids",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small logs, short trainings and searches, to see that it runs; no reproduction",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the comparison as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Reproduce and print."""
    if options.search and options.paper != "rlscheduler":
        raise ConfigurationError("--search is for rlscheduler.")
    study = _STUDIES.get(options.paper)
    if study is not None:
        return study(options, _named_traces(options.traces))
    if options.models or options.policy or (options.quick and not options.search):
        raise ConfigurationError(f"--models, --policy and --quick are for {', '.join(_STUDIES)}.")
    if options.paper == "heuristics":
        return _reproduce_heuristics(options)
    return _reproduce_rlscheduler(options)


def _reproduce_rlscheduler(options: argparse.Namespace) -> int:
    if options.seeds is not None and not options.search:
        raise ConfigurationError(
            "--seeds is for heuristics: rlscheduler's sequences are given, but for --search."
        )
    plan = _search_plan(options) if options.search else None
    claims = rlscheduler.reproduce(_traces(options.traces))
    found = {} if plan is None else _search(plan)
    claims += rlscheduler_search.search_claims(found)
    facts = None if plan is None else {"search": rlscheduler_search.search_facts(plan, found)}
    figures = [] if options.plot is None else [_plot(options.plot, claims)]
    seeds = rlscheduler.SEQUENCE_STARTS
    print_reproduction(options, seeds, claims, figures, print_claims, facts)
    if plan is not None and not options.json:
        print(rlscheduler_search.described(plan, found))
    return 0


def _search_plan(options: argparse.Namespace) -> rlscheduler_search.SearchPlan:
    seeds = _SEARCH_SEEDS if options.seeds is None else options.seeds
    if seeds < 1:
        raise ConfigurationError(f"--seeds {seeds}: a search needs at least 1.")
    return rlscheduler_search.SearchPlan(
        traces=_traces(options.traces),
        settings=rlscheduler_search.QUICK if options.quick else rlscheduler_search.FULL,
        seeds=range(seeds),
    )


def _search(plan: rlscheduler_search.SearchPlan) -> rlscheduler_search.Searches:
    generation = count(1)
    with progress_bar("searching", plan.steps, "slowdown") as progress:
        return rlscheduler_search.search_all(
            plan, lambda lowest: progress(next(generation), lowest)
        )


def _reproduce_heuristics(options: argparse.Namespace) -> int:
    seeds = _DEFAULT_SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigurationError(f"--seeds {seeds}: a standard error needs at least 2.")
    folder = _named_traces(options.traces)
    if folder is None:
        sys.stderr.write("No traces are named: the segments of LPC-EGEE are left out.\n")
    logs = heuristics.steps(seeds, with_segments=folder is not None)
    with progress_bar("simulating", logs, "fifo_mean_wait") as progress:
        claims = heuristics.reproduce(seeds, folder, progress)
    figures = [] if options.plot is None else _plot_heuristics(options.plot, claims)
    print_reproduction(options, range(seeds), claims, figures, print_sampled_claims)
    return 0


def _named_traces(given: Path | None) -> Path | None:
    named = given or os.environ.get(_TRACES_VARIABLE)
    return Path(named) if named else None


def _traces(given: Path | None) -> Path:
    folder = _named_traces(given)
    if folder is None:
        raise ConfigurationError(
            f"no traces: give their directory, or name it in the variable {_TRACES_VARIABLE}."
        )
    return folder


def _plot(folder: Path, claims: Sequence[Claim]) -> str:
    from slurm_rl_plugin.papers.study.comparison_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_comparison,
    )

    path = folder / "rlscheduler.png"
    slowdowns = [claim for claim in claims if "mean wait" not in claim.cell]
    draw_comparison(path, slowdowns, "mean bounded slowdown")
    return str(path)


def _plot_heuristics(folder: Path, claims: Sequence[SampledClaim]) -> list[str]:
    from slurm_rl_plugin.papers.study.comparison_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_comparison,
    )

    figures = {
        "mean waits (s)": ("mean wait", "interactive mean wait", "batch mean wait"),
        "fractions": ("interactive within 120 s", "U", "R", "J"),
    }
    paths = [folder / "heuristics-waits.png", folder / "heuristics-fractions.png"]
    for path, (quantity, columns) in zip(paths, figures.items(), strict=True):
        drawn = [
            Claim(
                group=claim.group,
                cell=f"{claim.policy}, {claim.column}",
                published=claim.printed.value,
                measured=claim.measured.value,
            )
            for claim in claims
            if claim.printed is not None and claim.column in columns
        ]
        draw_comparison(path, drawn, quantity)
    return [str(path) for path in paths]
