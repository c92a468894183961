"""The manual pages slurm-rl(1) and slurm-rl-run(8), made of the parsers of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.entry import VERBS, program_parser, verb_parser
from slurm_rl_plugin.configuration import DEFAULT_PATH

_FILES = (
    (DEFAULT_PATH, "the configuration; `slurm-rl show-config --defaults` tells every key"),
    ("/etc/slurm-rl/DISABLE", "while this file exists, nothing is written and factors are back"),
    ("/var/lib/slurm-rl/", "which jobs carry a factor of ours; the lock; what the model remembers"),
    ("/var/log/slurm-rl/audit.jsonl", "every decision and every write"),
)
_EXIT_STATUS = (
    ("0", "fine"),
    ("1", "failed, or something is wrong; of the daemon: a factor could not be taken back"),
    ("2", "wrong usage, input or configuration: it will not mend itself"),
)
_SIGNALS = (
    ("SIGTERM, SIGINT", "take every factor back, then exit"),
    ("SIGHUP", "read configuration and model again; where one is faulty all stays as it was"),
)
_ENVIRONMENT = (
    ("SLURM_RL_SECTION_KEY", "a key of the configuration, over the files: see slurm-rl.toml(5)"),
    ("SLURM_RL_TRACEBACK", "set to anything, a fault of ours shows where it happened"),
    ("SLURM_CONF, PATH", "as Slurm's own commands use them, and where these are found"),
)
_ENVIRONMENT_OF_THE_DAEMON = (
    *_ENVIRONMENT,
    ("NOTIFY_SOCKET", "of systemd; without it the daemon tells nobody that it is ready or alive"),
)
_ENVIRONMENT_OF_VERBS = (
    *_ENVIRONMENT,
    ("SLURM_RL_TRACES", "folder of job logs for reproduce, where none is named"),
    ("SLURM_RL_COMPILED", "folder of code that compile has made, in place of the environment's"),
    ("NUMBA_CACHE_DIR", "folder of code that a user has compiled (default: below ~/.cache)"),
    ("OPENBLAS_NUM_THREADS", "threads on which matrices are multiplied (default: 1)"),
)


def command_page(day: str) -> str:
    """slurm-rl(1): every verb with its options."""
    program = program_parser()
    lines = _title("slurm-rl", 1, day, "orders a Slurm queue with a trained network")
    lines += [".SH SYNOPSIS", ".B slurm\\-rl", "\\fIVERB\\fR [options]"]
    lines += [".SH DESCRIPTION", _text(f"{program.description} Options come after the verb.")]
    lines += [".SH OPTIONS", *_arguments(program._get_optional_actions()), ".SH VERBS"]
    for verb in VERBS:
        parser = verb_parser(verb)
        lines += [f".SS {_text(verb)}", _sentence(VERBS[verb].meaning), ".PP", *_synopsis(parser)]
        lines += _arguments([*parser._get_positional_actions(), *_told(parser)])
    lines += _list("EXIT STATUS", _EXIT_STATUS)
    lines += _list("ENVIRONMENT", _ENVIRONMENT_OF_VERBS)
    lines += _list("FILES", _FILES)
    lines += _see_also("slurm-rl-run.8", "slurm-rl.toml.5", "squeue.1", "sprio.1")
    return "\n".join(lines) + "\n"


def daemon_page(day: str) -> str:
    """slurm-rl-run(8): the daemon, and how its factors are taken back."""
    run, release = verb_parser("run"), verb_parser("release")
    lines = _title("slurm-rl-run", 8, day, VERBS["run"].meaning)
    lines += [".SH SYNOPSIS", *_synopsis(run), ".PP", *_synopsis(release)]
    lines += [
        ".SH DESCRIPTION",
        _text(
            "Every scheduling cycle it reads the queue, decides an order, and in active mode "
            "writes one additive term of the jobs' priority, SiteFactor. In shadow mode, the "
            "default, it decides and records only. Told to stop it takes every factor back. "
            "Where it could not, as it was killed, slurm-rl release does."
        ),
        *(".SH OPTIONS OF RUN", *_arguments(_told(run))),
        *(".SH OPTIONS OF RELEASE", *_arguments(_told(release))),
        *_list("SIGNALS", _SIGNALS),
        *_list("EXIT STATUS", _EXIT_STATUS),
        *_list("ENVIRONMENT", _ENVIRONMENT_OF_THE_DAEMON),
        *_list("FILES", _FILES),
        *_see_also("slurm-rl.1", "slurm-rl.toml.5", "systemctl.1", "scontrol.1"),
    ]
    return "\n".join(lines) + "\n"


def _title(name: str, section: int, day: str, meaning: str) -> list[str]:
    head = f'.TH {_text(name.upper())} {section} {day} "slurm\\-rl {_text(__version__)}"'
    ragged = [".nh", ".ad l"]  # long lists of choices do not fill a line
    return [head, *ragged, ".SH NAME", f"{_text(name)} \\- {_text(meaning)}"]


def _told(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Options but --help, which every verb has."""
    return [each for each in parser._get_optional_actions() if "--help" not in each.option_strings]


def _synopsis(parser: argparse.ArgumentParser) -> list[str]:
    words = [f"\\fB{_text(parser.prog)}\\fR"]
    for action in _told(parser):
        word = f"{_text(action.option_strings[-1])} {_value(action)}".strip()
        words.append(word if action.required else f"[{word}]")
    words += [_positional(action) for action in parser._get_positional_actions()]
    return [" ".join(words)]


def _positional(action: argparse.Action) -> str:
    """An argument without an option as a synopsis shows it: whether it must be, and how often."""
    if action.nargs == argparse.REMAINDER:  # of another program, which a user sets apart
        return f"\\-\\- {_value(action)} ..."
    more = " ..." if action.nargs in ("*", "+") else ""
    return f"[{_value(action)}{more}]" if action.nargs in ("*", "?") else f"{_value(action)}{more}"


def _arguments(actions: Sequence[argparse.Action]) -> Iterator[str]:
    for action in actions:
        value = _value(action)
        names = [f"\\fB{_text(name)}\\fR" for name in action.option_strings]
        shown = [f"{name} {value}".strip() for name in names] if names else [value]
        meaning = action.help or ""
        if action.choices is not None:
            meaning += f"{'; ' if meaning else ''}one of {', '.join(map(str, action.choices))}"
        if isinstance(action.default, int | float | str) and _is_worth_telling(action):
            meaning += f"{'; ' if meaning else ''}default {action.default}"
        yield from (".TP", ", ".join(shown), _sentence(meaning.replace("%%", "%")))


def _is_worth_telling(action: argparse.Action) -> bool:
    known = isinstance(action.default, bool) or action.default == argparse.SUPPRESS
    none = str(action.default) in ("", "inf", "-inf")
    return not known and not none and "default" not in (action.help or "")


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    shown = action.metavar if isinstance(action.metavar, str) else None
    return f"\\fI{_text(shown or action.dest.upper())}\\fR"


def _list(title: str, entries: Sequence[tuple[object, str]]) -> list[str]:
    lines = [f".SH {title}"]
    for name, meaning in entries:
        lines += [".TP", f"\\fB{_text(str(name))}\\fR", _sentence(meaning)]
    return lines


def _see_also(*pages: str) -> list[str]:
    named = [each.rpartition(".") for each in pages]
    shown = [f"\\fB{_text(name)}\\fR({section})" for name, _, section in named]
    return [".SH SEE ALSO", ",\n".join(shown)]


def _sentence(meaning: str) -> str:
    """What is said of something, as a sentence; empty where nothing is."""
    plain = meaning.strip().replace("`", "")
    return _text(plain if not plain or plain.endswith(".") else f"{plain}.")


def _text(words: str) -> str:
    """Words as roff prints them unchanged."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    breakable = re.sub(r",(?=\S)", r",\\:", escaped)  # lists without spaces
    return re.sub(r"^([.'])", r"\\&\1", breakable.replace("'", "\\(aq"))
