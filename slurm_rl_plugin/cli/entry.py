"""`slurm-rl`: finds the command, and turns every error into one sentence and an exit code."""

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
from difflib import get_close_matches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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

#: Every command by who uses it, as `slurm-rl --help` lists them; each meaning fits on one line.
GROUPS = {
    "for users of the cluster": {
        "start": "forecast when a job starts, pending or not yet submitted",
        "limits": "compare time limits with run times, and advise new limits",
        "route": "ask several sites when a job would start, and submit it",
    },
    "for administrators, on the first day": {
        "demo": "run the whole product on a simulated cluster",
        "check": "check that the daemon can run here, and suggest fixes",
        "show-config": "print the configuration in force and its sources",
        "pbs-setup": "print the commands that prepare a PBS server",
        "shadow-report": "report what active mode would change, and who would lose",
    },
    "for administrators, every day": {
        "status": "report whether the daemon is well; exit code 1 if not",
        "queue": "list the pending jobs in our order and in the site's",
        "explain": "explain the place of a pending job",
        "audit": "list decisions and writes from the audit log",
        "disable": "stop writing and roll back every factor, until enable",
        "enable": "resume after disable or pause",
        "pause": "stop writing and roll back every factor for a limited time",
        "release": "roll back every factor that the daemon wrote",
    },
    "to decide on a change, and for research": {
        "evaluate": "compare policies on an accounting log",
        "what-if": "predict what a change of slurm.conf does to users",
        "tune": "search settings of slurm.conf on a log; apply nothing",
        "experiment": "test our order against the site's, in turns on the cluster",
        "train": "train a model on accounting logs",
        "convert": "convert accounting logs of any size into one parquet file",
        "reproduce": "repeat a published experiment and compare its figures",
        "benchmark": "measure the speed of decisions",
    },
    "services, started by systemd, and their installation": {
        "run": "run the daemon that orders the pending jobs",
        "forecast": "run the service that forecasts when pending jobs start",
        "offer": "run the service that offers start times to brokers",
    },
}
#: Command -> what it does, in one line.
VERBS = {name: meaning for group in GROUPS.values() for name, meaning in group.items()}
#: Modules below this package that are not named after their command.
_MODULES = {"demo": "demo.demo"} | dict.fromkeys(("disable", "enable", "pause"), "off_switch")
#: Commands that stop the product or report on it: whatever is broken, they end in one sentence.
STOPPING = ("release", "disable", "enable", "pause", "status", "experiment")
#: Of these, commands that roll factors back or report on that: a failure names the manual way.
_ROLLING_BACK = ("release", "disable", "pause", "status", "experiment stop")
#: If this variable is set, an internal error shows its traceback.
TRACEBACK = "SLURM_RL_TRACEBACK"
#: Libraries whose wheels need more of a processor than x86-64 has -> the beginning of their
#: message on a processor that lacks it, and the fix. polars only warns, then SIGILL ends the
#: process.
_NEEDS_OF_PROCESSORS = {
    "polars": (
        "Missing required CPU features",
        "pip install 'polars[rtcompat]' in the same environment, or run it on a newer host",
    ),
    "numpy": ("NumPy was built with baseline optimizations", "run it on a newer host"),
}
#: Number of threads on which numpy multiplies matrices. Our matrices are small: with more threads,
#: a decision waits for a processor that another program uses.
_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
#: No option begins like a number, so argparse reads such a word as a value.
_BEGINS_AS_A_NUMBER = re.compile(r"-\.?\d")
#: Modules that a head node does not need; requirements/train.txt installs them.
EXTRAS = ("numba", "matplotlib", "rich", "polars", "scipy", "onnx", "cmaes", "sklearn")
_OURS = "slurm_rl_plugin."
_KERNEL = f"{_OURS}simulator.kernel."
#: Our modules that extend numba when they are imported.
_EXTENDING = frozenset(_KERNEL + name for name in ("compilation", "kept_code"))
#: Errors in what the user gave: exit code 2.
_USAGE_ERRORS = (ConfigurationError, AccountingLogError, ModelSchemaMismatch, ModelUnreadable)


class _Parser(argparse.ArgumentParser):
    """Reports an error in one sentence, and reads -1,5 as a value as Python 3.14 does."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self._negative_number_matcher = _BEGINS_AS_A_NUMBER

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message.removesuffix('.')} (see {self.prog} --help)\n")


class _ProgramParser(_Parser):
    """Lists the commands by who uses them."""

    def format_help(self) -> str:
        (commands,) = self._get_positional_actions()
        listed = {each.dest: each for each in commands._get_subactions()}  # type: ignore[attr-defined]
        text = self._get_formatter()
        text.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        text.add_text(self.description)
        sections = {title: [listed[name] for name in group] for title, group in GROUPS.items()}
        for title, actions in (*sections.items(), ("options", self._get_optional_actions())):
            text.start_section(title)
            text.add_arguments(actions)
            text.end_section()
        text.add_text("slurm-rl COMMAND --help describes the options of a command.")
        return text.format_help()


def program_parser() -> argparse.ArgumentParser:
    """The parser of the words before a command's own."""
    parser = _ProgramParser(
        prog="slurm-rl",
        description="Reorders the pending jobs of a Slurm or OpenPBS cluster.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"slurm-rl {__version__}")
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="COMMAND", parser_class=_Parser
    )
    for name, meaning in VERBS.items():
        verbs.add_parser(name, help=meaning, add_help=False)
    return parser


def verb_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of one command's words."""
    meaning = VERBS[verb]
    parser = _Parser(prog=f"slurm-rl {verb}", description=f"{meaning[0].upper()}{meaning[1:]}.")
    _module(verb).add_arguments(parser)
    return parser


def _module(verb: str) -> ModuleType:
    name = _MODULES.get(verb, verb.replace("-", "_"))
    with _one_matrix_thread():
        return importlib.import_module(f"slurm_rl_plugin.cli.{name}")


@contextmanager
def _one_matrix_thread() -> Iterator[None]:
    """Libraries imported here multiply matrices on one thread, unless the user says otherwise.

    The environment is restored afterwards, because jobs that a command submits inherit it.
    """
    if _MATRIX_THREADS in os.environ:
        yield
        return
    os.environ[_MATRIX_THREADS] = "1"  # numpy reads it once, when it is loaded
    try:
        yield
    finally:
        del os.environ[_MATRIX_THREADS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 success, 1 failure, 2 wrong input."""
    # unencodable characters must not abort a command
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as on standard error
    for message, _ in _NEEDS_OF_PROCESSORS.values():
        warnings.filterwarnings("error", message, RuntimeWarning)
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] not in VERBS and not words[0].startswith("-"):
        near = get_close_matches(words[0], VERBS, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        program_parser().error(f"{words[0]!r} is not a command{hint}")
    chosen, rest = program_parser().parse_args(words[:1]), words[1:]
    try:
        if {"-h", "--help"} & {*rest[: rest.index("--") if "--" in rest else None]}:
            with absent_extras():
                verb_parser(chosen.verb).parse_args(rest)  # exits, unless -h is an option's value
        with nullcontext() if chosen.verb in STOPPING else said_if_long("loading"):
            parser = verb_parser(chosen.verb)
        options = parser.parse_args(rest)
        return int(_module(chosen.verb).main(options))
    except KeyboardInterrupt as stop:
        return _failed(chosen.verb, str(stop) or "interrupted.")
    except Exception as error:  # noqa: BLE001 - sorted there
        return _ended_by(error, chosen.verb, rest)


class _Absent(ModuleType):
    """A missing module, or anything taken from one: it can only be named, passed and called."""

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
        # a package that is half loaded cannot be replaced
        is_loaded = not isinstance(sys.modules.get(package, _Absent(package)), _Absent)
        absent = (package in EXTRAS and not is_loaded) or fullname in _EXTENDING
        return ModuleSpec(fullname, self) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        absent = _Absent(spec.name)
        absent.__path__ = []  # any submodule can be imported
        return absent

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def absent_extras() -> Iterator[None]:
    """Import commands without their extras, installed or not, only to print their help.

    Modules imported within are unloaded afterwards.
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
                if package in sys.modules:  # else the package is unloaded already
                    vars(sys.modules[package]).pop(own, None)


def _ended_by(error: Exception, verb: str, words: Sequence[str]) -> int:
    """Say in one sentence why a command ended; its exit code."""
    if isinstance(error, SlurmRLError):
        return _failed(verb, str(error), 2 if isinstance(error, _USAGE_ERRORS) else 1)
    if isinstance(error, BrokenPipeError):
        # the reader closed the pipe (slurm-rl ... | head): no error, and nothing can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(verb in STOPPING)  # the reader may have missed a failure
    what = f"{verb} stop" if "stop" in words else verb
    if (sentence := _lacking_processor(error)) is not None:
        return _failed(verb, f"{sentence}{_by_hand(what)}.", 2)
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, ImportError):
        return _failed(verb, missing_library(what, error))
    if verb in STOPPING or isinstance(error, OSError):
        return _failed(verb, _unforeseen(what, error))
    raise error


def missing_library(what: str, error: ImportError) -> str:
    """One sentence on how to install a library that is missing or cannot be loaded."""
    name = (error.name or "a library").partition(".")[0]
    # Our name on a package index may belong to a stranger; a checkout pins versions and hashes.
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
    """The fix if this host's processor lacks what a library's wheel needs; else None."""
    for name, (message, instead) in _NEEDS_OF_PROCESSORS.items():
        if message in str(error):
            missing = re.search(r"not detected:\s+(\S.*)|\(([^()]+)\)", str(error))
            what = "" if missing is None else f" ({(missing[1] or missing[2]).strip()})"
            return f"this host's processor lacks instructions that {name} needs{what}: {instead}"
    return None


def _unforeseen(what: str, error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        check = "check the file, its folder and the disk"
        return f"{error.filename}: {error.strerror}: {check}{_by_hand(what)}."
    return (
        f"failed ({type(error).__name__}: {_one_line(error)}): fix the cause, or report it with "
        f"the output of {TRACEBACK}=1{_by_hand(what)}."
    )


def _by_hand(what: str) -> str:
    """How an administrator rolls factors back without us, for commands that would have done it."""
    if what not in _ROLLING_BACK:
        return ""
    return f"; until then, roll factors back by hand with {taken_back_by_hand(os.environ)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _failed(verb: str, sentence: str, code: int = 1) -> int:
    with suppress(OSError):
        print(f"slurm-rl {verb}: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
