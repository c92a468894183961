"""`slurm-rl pbs-setup --print`: the commands that prepare a PBS server, and how to undo each."""

from __future__ import annotations

import argparse
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.setup import heartbeat_file, setup_steps, site_formula
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.services.hook import shipped_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The daemon's user, and the formula that the printed commands set."""
    parser.add_argument("--print", action="store_true", required=True, help="change nothing")
    add_configuration_options(parser)
    parser.add_argument("--user", metavar="USER@HOST", help="account of the daemon (default: root)")
    parser.add_argument(
        "--formula",
        metavar="FORMULA",
        help="the site's own terms (default: the formula of the server)",
    )


def main(options: argparse.Namespace) -> int:
    """Print every step; the formula is last, because it activates the scores."""
    configuration = configuration_of(options)
    formula = site_formula(options.formula)
    heartbeat = heartbeat_file(Path(configuration.sections.hook.state_file))
    hooks = shipped_folder("deploy/pbs")
    steps = setup_steps(formula.terms, heartbeat, options.user, hooks, formula.former)
    print(f"# As root on the host of pbs_server. {formula.origin}")
    print("# To undo, stop the daemon, then go from the last step to the first.")
    for number, step in enumerate(steps, start=1):
        print(f"\n# {number}. {step.does}")
        print("\n".join(step.lines))
        print("\n".join(f"#    undo: {line}" for line in step.undo))
    return 0
