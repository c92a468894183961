"""`slurm-rl reproduce`: run a paper's experiment again and compare its figures."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.argument_types import whole_number
from slurm_rl_plugin.cli.progress import parts_bar, said_if_long
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.manifest import file_checksum, write_manifest

try:
    from slurm_rl_plugin.papers.registry import STUDIES
    from slurm_rl_plugin.papers.study.claims import TextTable, counts, tables_of
    from slurm_rl_plugin.papers.study.study import Asked, Outcome
except ModuleNotFoundError as error:
    if error.name != "slurm_rl_plugin.papers":
        raise
    raise ConfigurationError(
        "the published experiments are not installed on a head node: run it from a checkout, after "
        "`pip install -r requirements/train.txt` and `pip install --no-deps -e .` there."
    ) from None
from slurm_rl_plugin.services.hook import model_path

#: Variable of the default folder of traces.
_TRACES_VARIABLE = "SLURM_RL_TRACES"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The study, its size, its models and logs, and the folder of its figures."""
    parser.add_argument("paper", choices=tuple(STUDIES), help="the experiment")
    parser.add_argument(
        "traces",
        nargs="?",
        type=Path,
        metavar="TRACES_DIR",
        help=f"folder of the paper's job logs (default: ${_TRACES_VARIABLE}); start-times: a "
        "parquet file of polled jobs",
    )
    usual = {name: study.seeds for name, study in STUDIES.items()}
    parser.add_argument(
        "--seeds",
        type=whole_number(0),
        metavar="N",
        help="number of random logs, grids, clusters or trainings (default: "
        f"{usual['reactive-grids']}, heldout and ablation {usual['heldout']}, heuristics "
        f"{usual['heuristics']}, switchback {usual['switchback']}; backfilling-predictions, "
        "rlscheduler, start-times and replayed-starts have none)",
    )
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="folder for trained networks or measurements, from which an interrupted run "
        "continues and a second run starts",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small logs and short trainings: a test run, not a reproduction",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the comparison as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Reproduce, draw and print."""
    _check_options(options)
    with TemporaryDirectory() as temporary:
        asked = _asked(options, options.models or Path(temporary))
        with said_if_long("loading the study"):
            study = STUDIES[options.paper].load()
        outcome = study.run(asked)
    figures = [] if options.plot is None else _drawn(options, outcome)
    document = {
        "paper": options.paper,
        "seeds": list(outcome.seeds),
        "counts": counts(outcome.claims),
        "claims": [claim.as_json() for claim in outcome.claims],
        "figures": figures,
        **outcome.facts,
    }

    def show() -> None:
        for part in (*outcome.table(outcome.claims), *tables_of(outcome.facts)):
            if isinstance(part, TextTable):
                print_table(part.header, part.rows)
            else:
                print(part)

    return answer(options, document, show)


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options of other studies and missing traces, before any import."""
    if options.traces is not None and not options.traces.exists():
        raise ConfigurationError(
            f"{options.traces} does not exist: give the folder of the paper's job logs."
        )
    given = options.models or options.quick
    if given and not STUDIES[options.paper].keeps:
        others = ", ".join(name for name, study in STUDIES.items() if study.keeps)
        raise ConfigurationError(f"--models and --quick are for {others}.")


def _asked(options: argparse.Namespace, models: Path) -> Asked:
    traces = options.traces or os.environ.get(_TRACES_VARIABLE)
    return Asked(
        paper=options.paper,
        usual_seeds=STUDIES[options.paper].seeds,
        seeds=options.seeds,
        traces=Path(traces) if traces else None,
        traces_given=options.traces is not None,
        models=models,
        quick=options.quick,
        shipped=model_path,
        bar=parts_bar,
        say=lambda sentence: print(sentence, file=sys.stderr),
    )


def _drawn(options: argparse.Namespace, outcome: Outcome) -> list[str]:
    from slurm_rl_plugin.papers.study.figures import draw_all  # noqa: PLC0415 - matplotlib is heavy

    figures = draw_all(options.plot, outcome.drawings)
    if outcome.manifest is not None:
        words = ["slurm-rl", "reproduce", options.paper]
        words += [str(options.traces)] if options.traces else []
        words += ["--seeds", str(len(outcome.seeds)), *(["--quick"] if options.quick else [])]
        manifest = {
            "command": shlex.join(words),
            "version": __version__,
            "figures": {Path(path).name: file_checksum(Path(path)) for path in figures},
            **outcome.manifest,
        }
        write_manifest(options.plot / f"{options.paper}.json", manifest)
    return figures
