"""Completion of bash and zsh, made by shtab of the parsers: verbs, options, known values, files."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import shtab

from slurm_rl_plugin.cli.entry import VERBS, program_parser, verb_parser
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS

#: What an argument's placeholder says of its values: names, and that files may be given too.
NAMES_OF_PLACEHOLDERS = {
    "NAME|MODEL": tuple(NAMED_POLICIES),
    "RULE|MODEL": tuple(each.name for each in NAMED_POLICIES.values() if not each.needs_log),
    "slurm|NAME|MODEL.onnx": ("slurm", *SHIPPED_MODELS),
    "LOG": (),
}
#: How shtab tells zsh of an argument that may be given many times; zsh completes only the first
#: of them, and all where it reads `"*:` instead.
_ONE_OF_MANY = re.compile(r'"\(\*\)::?')


def completion(shell: str) -> str:
    """The completion file of one shell, "bash" or "zsh".

    What another program would have to be asked for, such as jobs and accounts, is not completed.
    """
    return _ONE_OF_MANY.sub('"*:', shtab.complete(whole_parser(), shell=shell) + "\n")


def whole_parser() -> argparse.ArgumentParser:
    """The program's parser with every verb's own, which `slurm-rl` itself loads one at a time."""
    parser = program_parser()
    verbs = parser._get_positional_actions()[0].choices
    assert isinstance(verbs, dict)
    for verb in VERBS:
        verbs[verb] = verb_parser(verb)
        for action in verbs[verb]._actions:
            _tell_values(action)
    return parser


def _tell_values(action: argparse.Action) -> None:
    """Say to shtab what completes an argument, where its parser gives no choices."""
    shown = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        return
    if names := NAMES_OF_PLACEHOLDERS.get(shown):
        action.complete = _names_or_files(shown, names)  # type: ignore[attr-defined]
    elif shown in NAMES_OF_PLACEHOLDERS or action.type is Path:
        action.complete = _names_or_files("", ())  # type: ignore[attr-defined]


def _names_or_files(placeholder: str, names: Sequence[str]) -> dict[str, str | dict[str, str]]:
    """A function of each shell that offers names beside files; it is defined in the file's head.

    shtab's own function for files takes a name with a blank apart, and offers no names.
    """
    function = "_slurm_rl_files" + re.sub(r"\W+", "_", f"_{placeholder}".lower()).rstrip("_")
    words = " ".join(names)
    bash = [f'  compgen -W "{words}" -- "$1"'] if names else []
    zsh = [f"'names:name:({words})'"] if names else []
    lines = {
        "bash": [*bash, '  compgen -f -- "$1"'],
        "zsh": ["  _alternative " + " ".join([*zsh, "'files:file:_files'"])],
    }
    heads = {shell: "\n".join([f"{function}() {{", *body, "}"]) for shell, body in lines.items()}
    return {"bash": function, "zsh": function, "preamble": heads}
