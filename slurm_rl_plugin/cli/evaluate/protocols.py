"""Options of `slurm-rl evaluate --protocol`, and what does not go together with which."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.cli.argument_types import at_least_one
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.continuous import ContinuousProtocol
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.policies.registry import NATIVE
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM, NODE_BACKFILLING

HELDOUT, CONTINUOUS = "heldout", "continuous"
#: Fewer windows than this are no held-out evaluation.
FEWEST_WINDOWS = 100
#: What the protocols leave to nobody: option -> the values (of `options`) that go with them.
_FIXED: dict[str, tuple[Any, ...]] = {
    "--backfill": (None, "easy"),
    "--estimates": ("requested",),
    "--estimates-from": (None,),
    "--drop": ((0, 0),),
    "--reserve": (0,),
    "--reserve-as": (None,),
    "--resample": (None,),
    "--timing": (False,),
    "--users": (False,),
    "--export": (None,),
}
#: The same of --config alone, whose study also tells of users and writes schedules.
_FIXED_AT_A_SITE: dict[str, tuple[Any, ...]] = {
    **{name: each for name, each in _FIXED.items() if name not in ("--users", "--export")},
    "--scale-load": (1.0,),
    "--partitions": (None,),
}
#: How nodes may be filled beside EASY where --cluster names them.
_ON_NODES: dict[str, tuple[Any, ...]] = {"--backfill": (None, *NODE_BACKFILLING)}
#: Options of one protocol alone.
_OF_ONE = {"--windows": HELDOUT, "--runs": CONTINUOUS}


def add_protocol_options(parser: argparse.ArgumentParser) -> None:
    """Add --protocol, --windows and --runs, which measure on jobs that no choice has seen."""
    parser.add_argument(
        "--protocol",
        choices=[HELDOUT, CONTINUOUS],
        help="heldout: rules chosen on the first 60 %% of LOG, policies compared on windows of the "
        "rest; continuous: the whole log in one run, figures of its last 40 %%",
    )
    parser.add_argument(
        "--windows",
        type=_windows,
        metavar="N",
        help=f"of each part with --protocol heldout (default: {HeldoutProtocol().windows})",
    )
    parser.add_argument(
        "--runs",
        type=at_least_one,
        metavar="N",
        help=f"with --protocol continuous, each without 2 %% of the jobs (default: "
        f"{ContinuousProtocol().runs})",
    )


def check_protocol_options(options: argparse.Namespace) -> None:
    """Refuse what does not go together.

    Raises:
        ConfigurationError: an option that the protocol or the study of --config settles itself,
            `native` with a protocol, an option of another protocol, or backfilling that needs
            nodes where none are named.
    """
    for option, protocol in _OF_ONE.items():
        if getattr(options, option[2:]) is not None and options.protocol != protocol:
            raise ConfigurationError(f"{option} belongs to --protocol {protocol}: give both.")
    if options.backfill == AS_SLURM and options.cluster is None:
        raise ConfigurationError(
            f"--backfill {AS_SLURM} is simulated on nodes: give --cluster too, or another "
            "--backfill."
        )
    _check_goals(options)
    if options.protocol is None:
        if options.config is not None:
            on_nodes = {} if options.cluster is None else _ON_NODES
            _refuse(options, {**_FIXED_AT_A_SITE, **on_nodes}, "--config")
        return
    if options.protocol == HELDOUT and options.plot is not None:
        raise ConfigurationError(
            "--plot draws schedules, and --protocol heldout has one for each window: leave it out."
        )
    fixed = _FIXED
    if options.protocol == CONTINUOUS and options.cluster is not None:
        fixed = {**_FIXED, **_ON_NODES}
    _refuse(options, fixed, f"--protocol {options.protocol}")
    if NATIVE in (options.policy or ()):
        raise ConfigurationError(
            f"policy native does not go with --protocol {options.protocol}: its starts were made "
            "among other jobs than those that are simulated. Leave out native."
        )


def _check_goals(options: argparse.Namespace) -> None:
    if options.goal and options.protocol == HELDOUT:
        raise ConfigurationError(
            "--goal does not go with --protocol heldout, whose windows begin on an empty machine: "
            "give --protocol continuous."
        )
    if options.goal and options.protocol is None and options.config is not None:
        raise ConfigurationError("--goal does not go with --config, whose [goals] count.")


def _refuse(options: argparse.Namespace, fixed: Mapping[str, tuple[Any, ...]], by: str) -> None:
    for option, allowed in fixed.items():
        if getattr(options, option[2:].replace("-", "_")) not in allowed:
            raise ConfigurationError(
                f"{option} does not go with {by}, which sets jobs, EASY backfilling and requested "
                f"times itself: leave out {option}."
            )


def _windows(text: str) -> int:
    number = at_least_one(text)
    if number < FEWEST_WINDOWS:
        raise argparse.ArgumentTypeError(
            f"{number} windows are too few: give {FEWEST_WINDOWS} at least"
        )
    return number
