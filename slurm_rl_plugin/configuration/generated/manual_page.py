"""The man page slurm-rl.toml(5), in the macros of man(7)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from slurm_rl_plugin import __version__
from slurm_rl_plugin.configuration.generated.example_file import toml_value
from slurm_rl_plugin.configuration.keys.key import SECTION_NOTES, Keys, markdown_of, plain
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.reading.shares_and_classes import CLASS_KEYS, FIELDS

#: Of a line before hyphens are escaped.
_WIDTH = 70
_FILES = (
    ("/etc/slurm-rl/slurm-rl.toml", "The file, unless --config names another."),
    (
        "/etc/slurm-rl/conf.d/*.toml",
        "Further files, in the folder conf.d beside the file, read in the order of their names. A "
        "later file wins key by key; its [shares], and its [[job_class]] rules, replace all of "
        "earlier files.",
    ),
)
_ENVIRONMENT = (
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


def manual_page(day: str, keys: Keys = KEYS) -> str:
    """The page slurm-rl.toml(5) in roff: every section and key, its default and its meaning."""
    lines = [
        f'.TH SLURM\\-RL.TOML 5 "{day}" "slurm\\-rl {__version__}" "slurm\\-rl"',
        *(".SH NAME", "slurm\\-rl.toml \\- configuration of slurm\\-rl"),
        *(".SH DESCRIPTION", *_paragraph(_DESCRIPTION)),
    ]
    for section, definitions in keys.items():
        lines += [f".SH [{_escaped(section)}]", *_paragraph(plain(SECTION_NOTES.get(section, "")))]
        for name, key in definitions.items():
            default = _escaped(toml_value(key.default))
            lines += [".TP", f"\\fB{_escaped(name)}\\fR = {default}"]
            lines += _paragraph(plain(markdown_of(key)))
    lines += [".SH [shares]", *_paragraph(_SHARES)]
    lines += [".SH [utility.NAME]", *_paragraph(f"{_UTILITY} {', '.join(CLASS_KEYS)}.")]
    lines += [".SH [[job_class]]", *_paragraph(f"{_JOB_CLASS} {', '.join(FIELDS)}.")]
    for heading, entries in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        lines.append(f".SH {heading}")
        for name, meaning in entries:
            lines += [".TP", f".B {_escaped(name)}", *_paragraph(meaning)]
    lines += [".SH SEE ALSO", ".BR scontrol (1),", ".BR slurm.conf (5)"]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> Iterator[str]:
    """Each sentence begins a line, as roff wants it, and lines are short."""
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", text):
        wrapped = textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from map(_escaped, wrapped)


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
