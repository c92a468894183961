"""`slurm-rl`: finds the verb, turns every error into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from slurm_rl_plugin import __version__
from slurm_rl_plugin.batch_systems.registry import taken_back_by_hand
from slurm_rl_plugin.cli.progress import said_if_long
from slurm_rl_plugin.errors import (
    AccountingLogError,
    ConfigurationError,
    ModelSchemaMismatch,
    ModelUnreadable,
    SlurmRLError,
)

#: Whose rights a verb has that root runs: those of the owner of the daemon's state folder, or of
#: the forecast service's; root's own if it follows no link in a folder of a lesser account.
STATE_OWNER, FORECAST_OWNER, ROOT = "state", "forecast", "root"


class Verb(NamedTuple):
    """A verb of the command line."""

    meaning: str
    as_root: str = ROOT  #: whose rights it has when root runs it
    #: below this package, imported when the verb is run; "" for the one of its name
    module: str = ""


#: Every verb of the command line, as `slurm-rl --help` lists them.
VERBS = {
    "demo": Verb(
        "the whole loop on a simulated cluster: train, shadow, active, plots, /metrics",
        module="demo.demo",
    ),
    "train": Verb("train a model on accounting logs"),
    "convert": Verb(
        "make one parquet file of accounting logs of any size; it is a LOG for all verbs"
    ),
    "evaluate": Verb("compare policies on an accounting log"),
    "what-if": Verb("what a change of slurm.conf would do to the users of a log"),
    "tune": Verb("search settings of slurm.conf on a log; writes lines, applies nothing"),
    "experiment": Verb(
        "the site's own order and ours in turns on the cluster itself; steps back by itself",
        STATE_OWNER,
    ),
    "reproduce": Verb("run the experiment of a paper again, its figures beside ours"),
    "check": Verb(
        "whether the daemon could do its work here, and what mends it; one write changes nothing",
        STATE_OWNER,
    ),
    "pbs-setup": Verb("the lines that prepare a PBS server, what each does and how to undo it"),
    "run": Verb("the daemon beside the batch system", STATE_OWNER),
    "queue": Verb("the pending jobs in the decided order, beside the site's own"),
    "explain": Verb("why a pending job is where it is"),
    "status": Verb("whether all is well with the daemon; exit code 1 if not", STATE_OWNER),
    "audit": Verb("what was decided and written, from the audit log"),
    "disable": Verb(
        "stop writing and take every factor back, until `enable`", STATE_OWNER, module="off_switch"
    ),
    "pause": Verb(
        "stop writing and take every factor back for some time; goes on by itself",
        STATE_OWNER,
        module="off_switch",
    ),
    "enable": Verb("go on after `disable` or `pause`", STATE_OWNER, module="off_switch"),
    "shadow-report": Verb(
        "what shadow mode would have changed, and what that would have been worth"
    ),
    "release": Verb("take back every factor that the daemon wrote", STATE_OWNER),
    "forecast": Verb("the service that foretells when pending jobs start", FORECAST_OWNER),
    "start": Verb("when a job starts, pending or not submitted yet"),
    "limits": Verb("time limits against run times, and what to ask for next time"),
    "offer": Verb("the service that tells brokers when this site would start a job"),
    "route": Verb("ask all sites when they would start a job, and submit it to the best"),
    "show-config": Verb("print the configuration in force"),
    "compile": Verb("compile the simulator for all users, at the end of an installation"),
    "benchmark": Verb("measure the hook and the simulator"),
}
#: Verbs that stop the product or tell of it: whatever is broken, they end in one sentence.
WAY_OUT = ("release", "disable", "enable", "pause", "status", "experiment")
#: Of these, what takes factors back or says whether they are: a failure names the way without us.
_TAKING_BACK = ("release", "disable", "pause", "status", "experiment stop")
#: Set to anything, a fault of ours shows where it happened.
TRACEBACK = "SLURM_RL_TRACEBACK"
#: Libraries whose wheels need more of a processor than x86-64 has -> how the words begin that they
#: say on one that lacks it, and what to do there. polars only warns, and SIGILL ends the process.
_NEEDS_OF_PROCESSORS = {
    "polars": (
        "Missing required CPU features",
        "pip install 'polars[rtcompat]' in the same environment, or run it on a newer host",
    ),
    "numpy": ("NumPy was built with baseline optimizations", "run it on a newer host"),
}
#: How many threads numpy multiplies matrices on. Ours are small: on more than one, the product in a
#: decision waits for a processor that another program has, and takes longer than all else.
_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
#: No option of ours begins like this: the option before it says what is wrong with it.
_BEGINS_AS_A_NUMBER = re.compile(r"-\.?\d")
#: Modules that a head node does not need; requirements/train.txt brings them.
EXTRAS = ("numba", "matplotlib", "rich", "polars", "scipy", "onnx", "cmaes", "sklearn")
_OURS = "slurm_rl_plugin."
_KERNEL = f"{_OURS}simulator.kernel."
#: Our modules that extend numba when they are imported.
_EXTENDING = frozenset(_KERNEL + name for name in ("compilation", "kept_code"))
#: Faults of what the user gave: exit code 2.
_USAGE_ERRORS = (ConfigurationError, AccountingLogError, ModelSchemaMismatch, ModelUnreadable)


class _Parser(argparse.ArgumentParser):
    """Says one sentence instead of the whole usage, and takes -1,5 for a value, as Python 3.14."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self._negative_number_matcher = _BEGINS_AS_A_NUMBER

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message.removesuffix('.')} (see {self.prog} --help)\n")


def program_parser() -> argparse.ArgumentParser:
    """The parser of the words before a verb's own."""
    parser = _Parser(
        prog="slurm-rl", description="Orders a batch queue with a network trained on its own log."
    )
    parser.add_argument("-V", "--version", action="version", version=f"slurm-rl {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, verb in VERBS.items():
        verbs.add_parser(name, help=verb.meaning, add_help=False)
    return parser


def verb_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb's words."""
    parser = _Parser(prog=f"slurm-rl {verb}", description=VERBS[verb].meaning)
    _module(verb).add_arguments(parser)
    return parser


def _module(verb: str) -> ModuleType:
    name = VERBS[verb].module or verb.replace("-", "_")
    with _one_matrix_thread():
        return importlib.import_module(f"slurm_rl_plugin.cli.{name}")


@contextmanager
def _one_matrix_thread() -> Iterator[None]:
    """What is imported here multiplies matrices on one thread, unless the user says otherwise.

    The environment is as it was afterwards: jobs that a verb submits take it along.
    """
    if _MATRIX_THREADS in os.environ:
        yield
        return
    os.environ[_MATRIX_THREADS] = "1"  # read once, as numpy is loaded
    try:
        yield
    finally:
        del os.environ[_MATRIX_THREADS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Find the verb, let its module parse and do the rest; 0 fine, 1 failed, 2 wrong input."""
    # a letter of a name or a reason that the terminal's encoding lacks ends no verb
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error has it
    for told, _ in _NEEDS_OF_PROCESSORS.values():
        warnings.filterwarnings("error", told, RuntimeWarning)
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen, rest = program_parser().parse_args(words[:1]), words[1:]
    try:
        if {"-h", "--help"} & {*rest[: rest.index("--") if "--" in rest else None]}:
            with absent_extras():
                verb_parser(chosen.verb).parse_args(rest)  # ends here, unless -h is another's word
        with nullcontext() if chosen.verb in WAY_OUT else said_if_long("loading"):
            parser = verb_parser(chosen.verb)
        options = parser.parse_args(rest)
        return int(_module(chosen.verb).main(options))
    except KeyboardInterrupt as stop:
        return _failed(chosen.verb, str(stop) or "interrupted.")
    except Exception as error:  # noqa: BLE001 - sorted there
        return _ended_by(error, chosen.verb, rest)


class _Absent(ModuleType):
    """A module that is absent, or anything taken from one: only to be named, passed and called."""

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> _Absent:
        return self

    def __getitem__(self, _: object) -> _Absent:
        return self

    def __iter__(self) -> Iterator[_Absent]:
        return iter(())

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()


class _AbsentFinder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        # half of a package that is loaded cannot be absent
        is_loaded = not isinstance(sys.modules.get(package, _Absent(package)), _Absent)
        absent = (package in EXTRAS and not is_loaded) or fullname in _EXTENDING
        return ModuleSpec(fullname, self) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        absent = _Absent(spec.name)
        absent.__path__ = []  # any module below it may be asked for
        return absent

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def absent_extras() -> Iterator[None]:
    """Import verbs without their extras, installed or not, to print their help and no more.

    What was imported within is forgotten afterwards.
    """
    finder, before = _AbsentFinder(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in sys.modules.keys() - before:
            package, _, own = name.rpartition(".")
            if isinstance(sys.modules[name], _Absent) or name.startswith(_OURS):
                del sys.modules[name]
                if package in sys.modules:  # else it was forgotten before what it holds
                    vars(sys.modules[package]).pop(own, None)


def _ended_by(error: Exception, verb: str, words: Sequence[str]) -> int:
    """Say in one sentence what ended a verb; its exit code."""
    if isinstance(error, SlurmRLError):
        return _failed(verb, str(error), 2 if isinstance(error, _USAGE_ERRORS) else 1)
    if isinstance(error, BrokenPipeError):
        # the reader went away (slurm-rl ... | head): nothing is wrong, and nothing may be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(verb in WAY_OUT)  # nobody has heard whether all was done
    what = f"{verb} stop" if "stop" in words else verb
    if (sentence := _lacking_processor(error)) is not None:
        return _failed(verb, f"{sentence}{_by_hand(what)}.", 2)
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, ImportError):
        return _failed(verb, missing_library(what, error))
    if verb in WAY_OUT or isinstance(error, OSError):
        return _failed(verb, _unforeseen(what, error))
    raise error


def missing_library(what: str, error: ImportError) -> str:
    """What to install where a library is missing or cannot be loaded; one sentence."""
    name = (error.name or "a library").partition(".")[0]
    # Our name on a package index may be a stranger's; a checkout's files name versions and hashes.
    file = "train" if name in EXTRAS else "runtime"
    where = f"-r requirements/{file}.txt in a checkout of version {__version__}"
    if isinstance(error, ModuleNotFoundError):
        words = f"needs {name}: pip install {where}"
    else:
        words = (
            f"{name} cannot be loaded ({_one_line(error)}): pip install --force-reinstall {where}"
        )
    return f"{words}{_by_hand(what)}."


def _lacking_processor(error: Exception) -> str | None:
    """What to do where this host's processor lacks what a library's wheel needs; else None."""
    for name, (told, instead) in _NEEDS_OF_PROCESSORS.items():
        if told in str(error):
            missing = re.search(r"not detected:\s+(\S.*)|\(([^()]+)\)", str(error))
            what = "" if missing is None else f" ({(missing[1] or missing[2]).strip()})"
            return f"this host's processor lacks instructions that {name} needs{what}: {instead}"
    return None


def _unforeseen(what: str, error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        mend = "see to the file, its folder or the disc"
        return f"{error.filename}: {error.strerror}: {mend}{_by_hand(what)}."
    return (
        f"failed ({type(error).__name__}: {_one_line(error)}): mend that, or report it with what "
        f"{TRACEBACK}=1 shows{_by_hand(what)}."
    )


def _by_hand(what: str) -> str:
    """How factors are taken back without us, for verbs that would have done it."""
    if what not in _TAKING_BACK:
        return ""
    return f"; until then factors are taken back by {taken_back_by_hand(os.environ)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _failed(verb: str, sentence: str, code: int = 1) -> int:
    with suppress(OSError):
        print(f"slurm-rl {verb}: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
