"""The completion of bash, made of the parsers: verbs, options, and values where they are known."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.cli.entry import VERBS, program_parser, verb_parser
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS

#: What an argument's placeholder says of its values: names, and that files may be given too.
NAMES_OF_PLACEHOLDERS = {
    "NAME|MODEL": tuple(NAMED_POLICIES),
    "RULE|MODEL": tuple(each.name for each in NAMED_POLICIES.values() if not each.needs_log),
    "slurm|NAME|MODEL.onnx": ("slurm", *SHIPPED_MODELS),
    "LOG": (),
}
_HEAD = """\
# bash completion of slurm-rl, made of its parsers by `make generated`: do not edit.
# What another program would have to be asked for, such as jobs and accounts, is not completed.

_slurm_rl_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}

_slurm_rl_words_or_files() {
    mapfile -t COMPREPLY < <(
        compgen -W "$1" -- "$word"
        compgen -f -- "$word"
    )
    compopt -o filenames 2>/dev/null
}

_slurm_rl() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    COMPREPLY=()
"""
_TAIL = """\
    esac
}

complete -F _slurm_rl slurm-rl
"""


def bash_completion() -> str:
    """The whole file.

    Raises:
        ModuleNotFoundError: an extra that a verb needs is not installed.
    """
    first = [*VERBS, *_names(program_parser()._actions)]
    lines = [
        "    if ((COMP_CWORD == 1)); then",
        f"        {_words(first)}",
        *("        return", "    fi", "    case $verb in"),
    ]
    for verb in VERBS:
        lines += [f"        {verb})", *_verb(verb_parser(verb)._actions), "            ;;"]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _names(actions: list[argparse.Action]) -> list[str]:
    return [name for action in actions for name in action.option_strings]


def _words(words: list[str]) -> str:
    return f"_slurm_rl_words {shlex.quote(' '.join(words))}"


def _verb(actions: list[argparse.Action]) -> Iterator[str]:
    """Lines of one verb: after an option its values, after a dash options, else arguments."""
    flags = [action for action in actions if action.option_strings]
    values: dict[str, list[str]] = {}  # the command that completes -> options before the word
    for action in flags:
        if action.nargs != 0:
            values.setdefault(_values(action), []).extend(action.option_strings)
    if values:
        yield "            case $before in"
        for command, names in values.items():
            yield f"                {' | '.join(names)})"
            yield from (f"                    {each}" for each in (command, "return", ";;"))
        yield "            esac"
    yield from _arguments([a for a in actions if not a.option_strings], _words(_names(flags)))


def _arguments(arguments: list[argparse.Action], options: str) -> Iterator[str]:
    if not arguments:
        yield f"            {options}"
        return
    yield "            case $COMP_CWORD:$word in"
    yield f"                *:-*) {options} ;;"
    for place, action in enumerate(arguments[:-1], start=2):
        yield f"                {place}:*) {_values(action)} ;;"
    yield f"                *) {_values(arguments[-1])} ;;"
    yield "            esac"


def _values(action: argparse.Action) -> str:
    """The command that completes an argument's value; a colon where nothing is known."""
    if action.choices is not None:
        return _words([str(choice) for choice in action.choices])
    shown = action.metavar if isinstance(action.metavar, str) else ""
    if shown in NAMES_OF_PLACEHOLDERS:
        words = shlex.quote(" ".join(NAMES_OF_PLACEHOLDERS[shown]))
        return f"_slurm_rl_words_or_files {words}"
    return "_slurm_rl_words_or_files ''" if action.type is Path else ":"
