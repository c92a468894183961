"""The manual pages and the completion of bash and zsh, made from the parsers and the keys.

`python -m slurm_rl_plugin.cli.generated FOLDER [DAY]` writes them. shtab makes the completion:
commands, options, known values and files.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import shtab

from slurm_rl_plugin import RELEASE
from slurm_rl_plugin.cli.entry import GROUPS, VERBS, program_parser, verb_parser
from slurm_rl_plugin.configuration.files import CLASS_KEYS, FIELDS
from slurm_rl_plugin.configuration.generated import (
    JOB_CLASS_NOTE,
    SHARES_NOTE,
    UTILITY_NOTE,
    documented_keys,
    section_note,
    toml_value,
)
from slurm_rl_plugin.configuration.key import Keys, markdown_of, plain
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS
from slurm_rl_plugin.whole_file import read_whole, write_whole

#: Placeholder of an argument -> names that complete it, in addition to files.
NAMES_OF_PLACEHOLDERS = {
    "NAME|MODEL": tuple(NAMED_POLICIES),
    "RULE|MODEL": tuple(each.name for each in NAMED_POLICIES.values() if not each.needs_log),
    "slurm|NAME|MODEL.onnx": ("slurm", *SHIPPED_MODELS),
    "LOG": (),
}
#: How shtab marks for zsh an argument that may be repeated. zsh completes only the first one, and
#: all of them where it reads `"*:` instead.
_ONE_OF_MANY = re.compile(r'"\(\*\)::?')
#: Characters of a line, before hyphens are escaped.
_PAGE_WIDTH = 70
#: What the pages say in addition.
_MANUAL = tomllib.loads(read_whole(Path(__file__).with_name("manual.toml")).decode())


def write_files(folder: Path, day: str) -> None:
    """Write `man/*.[158]`, `completion/slurm-rl` for bash and `completion/_slurm-rl` for zsh."""
    files = {
        "completion/slurm-rl": completion("bash"),
        "completion/_slurm-rl": completion("zsh"),
        "man/slurm-rl.1": command_page(day),
        "man/slurm-rl-run.8": daemon_page(day),
        "man/slurm-rl.toml.5": manual_page(day),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content)


def command_page(day: str) -> str:
    """slurm-rl(1): every command with its options, by who uses it."""
    program = program_parser()
    lines = _title("slurm-rl", 1, day, "reorders the pending jobs of a Slurm or OpenPBS cluster")
    lines += [".SH SYNOPSIS", ".B slurm\\-rl", "\\fICOMMAND\\fR [options]"]
    lines += [".SH DESCRIPTION", _text(f"{program.description} Options follow the command.")]
    lines += [".SH OPTIONS", *_arguments(program._get_optional_actions())]
    for title, group in GROUPS.items():
        lines.append(f".SH COMMANDS {_text(title.upper())}")
        for verb, meaning in group.items():
            parser = verb_parser(verb)
            lines += [f".SS {_text(verb)}", *_sentences(meaning), ".PP", *_synopsis(parser)]
            lines += _arguments([*parser._get_positional_actions(), *_described(parser)])
    lines += _list("exit status")
    lines += _list("environment", "environment of commands")
    lines += _list("files")
    lines += _see_also("slurm-rl-run.8", "slurm-rl.toml.5", "squeue.1", "sprio.1")
    return "\n".join(lines) + "\n"


def daemon_page(day: str) -> str:
    """slurm-rl-run(8): the daemon, and how its factors are rolled back."""
    run, release = verb_parser("run"), verb_parser("release")
    lines = [
        *_title("slurm-rl-run", 8, day, VERBS["run"]),
        *(".SH SYNOPSIS", *_synopsis(run), ".PP", *_synopsis(release)),
        *(".SH DESCRIPTION", *_sentences(_MANUAL["description"]["slurm-rl-run"])),
        *(".SH OPTIONS OF RUN", *_arguments(_described(run))),
        *(".SH OPTIONS OF RELEASE", *_arguments(_described(release))),
        *_list("signals"),
        *_list("exit status"),
        *_list("environment", "environment of the daemon"),
        *_list("files"),
        *_see_also("slurm-rl.1", "slurm-rl.toml.5", "systemctl.1", "scontrol.1"),
    ]
    return "\n".join(lines) + "\n"


def manual_page(day: str, keys: Keys | None = None) -> str:
    """slurm-rl.toml(5): every section and key, its default and its meaning."""
    lines = _title("slurm-rl.toml", 5, day, "configuration of slurm-rl")
    lines += [".SH DESCRIPTION", *_sentences(_MANUAL["description"]["slurm-rl.toml"])]
    for section, definitions in (keys or documented_keys()).items():
        lines += [f".SH [{_text(section)}]", *_sentences(plain(section_note(section)))]
        for name, key in definitions.items():
            lines += [".TP", f"\\fB{_text(name)}\\fR = {_text(toml_value(key.default))}"]
            lines += _sentences(plain(markdown_of(key)))
    lines += [".SH [shares]", *_sentences(SHARES_NOTE)]
    lines += [".SH [utility.NAME]", *_sentences(f"{UTILITY_NOTE} Keys: {', '.join(CLASS_KEYS)}.")]
    lines += [".SH [[job_class]]", *_sentences(f"{JOB_CLASS_NOTE} Keys: {', '.join(FIELDS)}.")]
    lines += _list("environment of the configuration")
    lines += _list("files of the configuration")
    lines += _see_also("slurm-rl.1", "scontrol.1", "slurm.conf.5")
    return "\n".join(lines) + "\n"


def _title(name: str, section: int, day: str, meaning: str) -> list[str]:
    head = f'.TH {_text(name.upper())} {section} {day} "slurm\\-rl {_text(RELEASE)}"'
    ragged = [".nh", ".ad l"]  # long lists of choices do not fill a line
    return [head, *ragged, ".SH NAME", f"{_text(name)} \\- {_text(meaning)}"]


def _described(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options except --help, which every command has."""
    return [each for each in parser._get_optional_actions() if "--help" not in each.option_strings]


def _synopsis(parser: argparse.ArgumentParser) -> list[str]:
    words = [f"\\fB{_text(parser.prog)}\\fR"]
    for action in _described(parser):
        word = f"{_text(action.option_strings[-1])} {_value(action)}".strip()
        words.append(word if action.required else f"[{word}]")
    words += [_positional(action) for action in parser._get_positional_actions()]
    return [" ".join(words)]


def _positional(action: argparse.Action) -> str:
    """An argument without an option in a synopsis: whether it is required, and how often."""
    if action.nargs == argparse.REMAINDER:  # words of another program, after --
        return f"\\-\\- {_value(action)} ..."
    more = " ..." if action.nargs in ("*", "+") else ""
    return f"[{_value(action)}{more}]" if action.nargs in ("*", "?") else f"{_value(action)}{more}"


def _arguments(actions: Sequence[argparse.Action]) -> Iterator[str]:
    for action in actions:
        value = _value(action)
        names = [f"\\fB{_text(name)}\\fR" for name in action.option_strings]
        shown = [f"{name} {value}".strip() for name in names] if names else [value]
        meaning = [action.help or ""]
        if action.choices is not None:
            meaning.append(f"one of {', '.join(map(str, action.choices))}")
        if isinstance(action.default, int | float | str) and _has_a_default(action):
            meaning.append(f"default {action.default}")
        text = "; ".join(filter(None, meaning)).replace("%%", "%")
        yield from (".TP", ", ".join(shown), *_sentences(text))


def _has_a_default(action: argparse.Action) -> bool:
    known = isinstance(action.default, bool) or action.default == argparse.SUPPRESS
    none = str(action.default) in ("", "inf", "-inf")
    return not known and not none and "default" not in (action.help or "")


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    shown = action.metavar if isinstance(action.metavar, str) else None
    return f"\\fI{_text(shown or action.dest.upper())}\\fR"


def _list(*tables: str) -> list[str]:
    """Tables of the manual, below the title of the first without what it is of."""
    lines = [f".SH {tables[0].partition(' of ')[0].upper()}"]
    for name, meaning in chain.from_iterable(_MANUAL[table].items() for table in tables):
        lines += [".TP", f"\\fB{_text(name)}\\fR", *_sentences(meaning)]
    return lines


def _see_also(*pages: str) -> list[str]:
    named = [each.rpartition(".") for each in pages]
    shown = [f"\\fB{_text(name)}\\fR({section})" for name, _, section in named]
    return [".SH SEE ALSO", ",\n".join(shown)]


def _sentences(meaning: str) -> Iterator[str]:
    """A text as short lines, each sentence on a line of its own as roff wants it."""
    plain = meaning.strip().replace("`", "")
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", plain):
        whole = sentence if sentence[-1:] in ("", ".", ":") else f"{sentence}."
        lines = textwrap.wrap(whole, _PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from map(_text, lines)


def _text(words: str) -> str:
    """Words as roff prints them unchanged."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    breakable = re.sub(r",(?=\S)", r",\\:", escaped)  # lists without spaces
    return re.sub(r"^([.'])", r"\\&\1", breakable.replace("'", "\\(aq"))


def completion(shell: str) -> str:
    """The completion file of one shell, "bash" or "zsh"."""
    return _ONE_OF_MANY.sub('"*:', shtab.complete(whole_parser(), shell=shell) + "\n")


def whole_parser() -> argparse.ArgumentParser:
    """The program's parser with every command's own; `slurm-rl` itself loads one at a time."""
    parser = program_parser()
    verbs = parser._get_positional_actions()[0].choices
    assert isinstance(verbs, dict)
    for verb in VERBS:
        verbs[verb] = verb_parser(verb)
        for action in verbs[verb]._actions:
            _add_values(action)
    return parser


def _add_values(action: argparse.Action) -> None:
    """Set for shtab what completes an argument whose parser gives no choices."""
    shown = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        return
    if names := NAMES_OF_PLACEHOLDERS.get(shown):
        action.complete = _names_or_files(shown, names)  # type: ignore[attr-defined]
    elif shown in NAMES_OF_PLACEHOLDERS or action.type is Path:
        action.complete = _names_or_files("", ())  # type: ignore[attr-defined]


def _names_or_files(placeholder: str, names: Sequence[str]) -> dict[str, str | dict[str, str]]:
    """A function of each shell that offers names and files, defined at the top of the file.

    shtab's own function for files splits names with blanks, and offers no further names.
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


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    write_files(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else today)
