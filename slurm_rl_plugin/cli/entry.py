"""`slurm-rl`: finds the verb, turns every error into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from slurm_rl_plugin import __version__
from slurm_rl_plugin.errors import (
    AccountingLogError,
    ConfigurationError,
    ModelSchemaMismatch,
    ModelUnreadable,
    SlurmRLError,
)

#: Verb -> what `slurm-rl --help` says of it; each has a module of its name in this package.
VERBS = {
    "demo": "the whole loop on a simulated cluster: train, shadow, active, plots, /metrics",
    "train": "train a model on accounting logs",
    "convert": "make one parquet file of accounting logs of any size; it is a LOG for all verbs",
    "evaluate": "compare policies on an accounting log",
    "reproduce": "run the experiment of a paper again, its figures beside ours",
    "check": "whether the daemon could do its work here, and what mends it",
    "pbs-setup": "the lines that prepare a PBS server, what each does and how to undo it",
    "run": "the daemon beside the batch system",
    "queue": "the pending jobs in the decided order, beside the site's own",
    "explain": "why a pending job is where it is",
    "status": "whether all is well with the daemon; exit code 1 if not",
    "audit": "what was decided and written, from the audit log",
    "disable": "stop writing and take every factor back, until `enable`",
    "pause": "the same for some time; goes on by itself",
    "enable": "go on after `disable` or `pause`",
    "shadow-report": "what shadow mode would have changed, and what that would have been worth",
    "release": "take back every factor that the daemon wrote",
    "offer": "the service that tells brokers when this site would start a job",
    "route": "ask all sites when they would start a job, and submit it to the best",
    "show-config": "print the configuration in force",
    "benchmark": "measure the hook and the simulator",
}
#: Modules of the extra `train` that are not of `simulate`.
_OF_TRAINING = ("onnx", "cmaes", "sklearn", "polars", "submitit")
#: Faults of what the user gave: exit code 2.
_USAGE_ERRORS = (ConfigurationError, AccountingLogError, ModelSchemaMismatch, ModelUnreadable)


class _Parser(argparse.ArgumentParser):
    """Says one sentence instead of the whole usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def program_parser() -> argparse.ArgumentParser:
    """The parser of the words before a verb's own."""
    parser = _Parser(
        prog="slurm-rl", description="Orders a batch queue with a network trained on its own log."
    )
    parser.add_argument("-V", "--version", action="version", version=f"slurm-rl {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, meaning in VERBS.items():
        verbs.add_parser(verb, help=meaning, add_help=False)
    return parser


def verb_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb's words.

    Raises:
        ModuleNotFoundError: an extra that the verb needs is not installed.
    """
    parser = _Parser(prog=f"slurm-rl {verb}", description=VERBS[verb])
    _module(verb).add_arguments(parser)
    return parser


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"slurm_rl_plugin.cli.{verb.replace('-', '_')}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: of the command line, without the program's name; sys.argv by default.

    Returns:
        0 fine, 1 failed, 2 wrong usage, input or configuration.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen, rest = program_parser().parse_args(words[:1]), words[1:]
    try:
        options = verb_parser(chosen.verb).parse_args(rest)
        return int(_module(chosen.verb).main(options))
    except _USAGE_ERRORS as error:
        sys.stderr.write(f"slurm-rl {chosen.verb}: {error}\n")
        return 2
    except SlurmRLError as error:
        sys.stderr.write(f"slurm-rl {chosen.verb}: {error}\n")
        return 1
    except ModuleNotFoundError as error:
        extra = "train" if error.name in _OF_TRAINING else "simulate"
        sys.stderr.write(
            f"slurm-rl {chosen.verb}: needs {error.name}: pip install 'slurm_rl_plugin[{extra}]'.\n"
        )
        return 1
    except BrokenPipeError:
        # the reader went away (slurm-rl ... | head): nothing is wrong, and nothing may be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write(f"slurm-rl {chosen.verb}: interrupted.\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
