"""The manual pages and completion of bash and zsh, made of the parsers and of the keys.

`python -m slurm_rl_plugin.cli.generated FOLDER [DAY]` writes them. Completion is made by shtab:
verbs, options, known values, files; what another program would have to be asked for is not
completed.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import shtab

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.entry import VERBS, program_parser, verb_parser
from slurm_rl_plugin.configuration import DEFAULT_PATH
from slurm_rl_plugin.configuration.generated import documented_keys, section_note, toml_value
from slurm_rl_plugin.configuration.key import Keys, markdown_of, plain
from slurm_rl_plugin.configuration.tables import CLASS_KEYS, FIELDS
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS
from slurm_rl_plugin.whole_file import write_whole

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
#: Of a line before hyphens are escaped.
_PAGE_WIDTH = 70
_FILES_OF_CONFIGURATION = (
    ("/etc/slurm-rl/slurm-rl.toml", "The file, unless --config names another."),
    (
        "/etc/slurm-rl/conf.d/*.toml",
        "Further files, in the folder conf.d beside the file, read in the order of their names. A "
        "later file wins key by key; its [shares], and its [[job_class]] rules, replace all of "
        "earlier files.",
    ),
)
_ENVIRONMENT_OF_CONFIGURATION = (
    ("SLURM_RL_SECTION_KEY", "Goes over the files: SLURM_RL_HOOK_MODE=active, or "
     "SLURM_RL_GUARD_RAILS_EXEMPT_QOS=debug,test. Lists are separated by commas, truth values are "
     "true and false. Shares and rules are given in files only."),
)  # fmt: skip
_DESCRIPTION = (
    "The configuration of slurm-rl(1), in TOML. A key that is left out takes its default. "
    "Every fault is named at once, with its file and line, and exit code 2; an unknown key is a "
    "fault. A key on the command line, --set section.key=value, goes over all else. "
    "slurm-rl show-config prints what is in force and where each value comes from; --defaults "
    "prints an example file. SIGHUP makes the daemon read all again."
)
_SHARES = (
    'Either from = "slurm", the default, which takes the raw shares of the account tree (with '
    'OpenPBS from = "pbs", those of its fairshare groups), or one '
    "line for each account with its fraction; they sum to 1. An account without a line has share "
    "0."
)
_JOB_CLASS = (
    "An ordered list of rules; the first that matches decides, and a job that none matches is "
    "batch. A rule matches if everything that it names fits. class is interactive, batch or the "
    "name of a [utility.NAME]; "
    "partition, qos, name, account and user are regular expressions searched in that field; "
    "time_limit_at_most is in seconds; no_batch_script = true matches jobs started by srun or "
    "salloc. Keys:"
)

_UTILITY = (
    "A class of service with its time utility, which is 1 until the deadline: the run time and "
    "sigma (60) seconds. After it a class of form exponential decays by alpha (0.5) a minute, one "
    "of form power by the exponent beta (0.3), one of form deadline has 0, and one of form "
    "piecewise goes through points, pairs of hours past the deadline and utility. hours gives a "
    "deadline that many hours after submission. interactive = true makes its jobs interactive; "
    "users = true lets users choose it. [utility.batch] and [utility.interactive] change the "
    "built-in classes. Keys:"
)


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


def manual_page(day: str, keys: Keys | None = None) -> str:
    """The page slurm-rl.toml(5) in roff: every section and key, its default and its meaning."""
    lines = [
        f'.TH SLURM\\-RL.TOML 5 "{day}" "slurm\\-rl {__version__}" "slurm\\-rl"',
        *(".SH NAME", "slurm\\-rl.toml \\- configuration of slurm\\-rl"),
        *(".SH DESCRIPTION", *_paragraph(_DESCRIPTION)),
    ]
    for section, definitions in (keys or documented_keys()).items():
        lines += [f".SH [{_escaped(section)}]", *_paragraph(plain(section_note(section)))]
        for name, key in definitions.items():
            default = _escaped(toml_value(key.default))
            lines += [".TP", f"\\fB{_escaped(name)}\\fR = {default}"]
            lines += _paragraph(plain(markdown_of(key)))
    lines += [".SH [shares]", *_paragraph(_SHARES)]
    lines += [".SH [utility.NAME]", *_paragraph(f"{_UTILITY} {', '.join(CLASS_KEYS)}.")]
    lines += [".SH [[job_class]]", *_paragraph(f"{_JOB_CLASS} {', '.join(FIELDS)}.")]
    for heading, entries in (
        ("ENVIRONMENT", _ENVIRONMENT_OF_CONFIGURATION),
        ("FILES", _FILES_OF_CONFIGURATION),
    ):
        lines.append(f".SH {heading}")
        for name, meaning in entries:
            lines += [".TP", f".B {_escaped(name)}", *_paragraph(meaning)]
    lines += [".SH SEE ALSO", ".BR scontrol (1),", ".BR slurm.conf (5)"]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> Iterator[str]:
    """Each sentence begins a line, as roff wants it, and lines are short."""
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", text):
        wrapped = textwrap.wrap(
            sentence, _PAGE_WIDTH, break_long_words=False, break_on_hyphens=False
        )
        yield from map(_escaped, wrapped)


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def completion(shell: str) -> str:
    """The completion file of one shell, "bash" or "zsh"."""
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


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    write_files(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else today)
