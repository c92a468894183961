"""The example file and the tables of docs/configuration.md, and values as TOML.

``python -m slurm_rl_plugin.configuration.generated`` writes both; tests compare.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any, get_type_hints

from slurm_rl_plugin.configuration.files import DEFAULT_SOURCE, FIELDS, FROM, shown
from slurm_rl_plugin.configuration.key import (
    JOB_CLASS,
    SHARES,
    UTILITY,
    Key,
    Keys,
    markdown_of,
    plain,
)
from slurm_rl_plugin.configuration.sections import KEYS, Sections
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES, JobClassRule
from slurm_rl_plugin.domain.utility_class import UtilityClass
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS
from slurm_rl_plugin.whole_file import write_whole

TOP = Path(__file__).resolve().parents[2]
DOCUMENT = Path("docs") / "configuration.md"
#: The lines of the document between these two are generated.
BEGIN = "<!-- keys: made of their definitions by slurm_rl_plugin.configuration.generated -->"
END = "<!-- end of keys -->"
_WIDTH = 99
_OPENING = (
    "slurm-rl.toml(5): every key with its default. A missing key takes its default, which a later "
    "release may change.",
    "Files conf.d/*.toml next to this file are read after it, in the order of their names. "
    "Variables such as SLURM_RL_HOOK_MODE override files, and --set hook.mode=shadow overrides "
    "variables. `slurm-rl show-config` prints what is in force and its sources.",
)
SHARES_NOTE = (
    'Either from = "slurm", the default, which takes the raw shares of the account tree (with '
    'OpenPBS from = "pbs", those of its fairshare groups), or one line for each account with its '
    "fraction, such as physics = 0.7; the fractions sum to 1. An account without a line has share "
    "0."
)
JOB_CLASS_NOTE = (
    "An ordered list of rules. The first rule that matches decides; a job that no rule matches is "
    "batch. A rule matches if everything that it names fits. class is interactive, batch or the "
    "name of a [utility.NAME]; partition, qos, name, account and user are regular expressions "
    "searched in that field; time_limit_at_most is in seconds; no_batch_script = true matches jobs "
    "started by srun or salloc."
)
UTILITY_NOTE = (
    "A class of service that [[job_class]] rules may name, with its time utility, which is 1 "
    "until the deadline: the run time and sigma (60) seconds. After it a class of form "
    "exponential decays by alpha (0.5) a minute, one of form power by the exponent beta (0.3), "
    "one of form deadline has 0, and one of form piecewise goes through points, pairs of hours "
    "past the deadline and utility. hours gives a deadline that many hours after submission. "
    "interactive = true makes its jobs interactive; users = true lets users choose it. "
    "[utility.batch] and [utility.interactive] change the built-in classes."
)
_UTILITY_LINES = ("[utility.SDJ]", 'form = "deadline"', "sigma = 60", "interactive = true")


@cache
def documented_keys() -> Keys:
    """Every key with its help, the text below its field in `sections`."""
    rules = [each.name for each in NAMED_POLICIES.values() if each.is_rule and not each.needs_log]
    named = {"rules": rules, "models": SHIPPED_MODELS}
    words = {kind: ", ".join(f"`{name}`" for name in names) for kind, names in named.items()}
    found: dict[str, dict[str, Key]] = {}
    for section, made in get_type_hints(Sections).items():
        helps: dict[str, str] = {}
        for each in reversed(made.__mro__[:-1]):
            body = ast.parse(inspect.getsource(each)).body[0].body  # type: ignore[attr-defined]
            for field, text in pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    helps[ast.unparse(field.target)] = " ".join(
                        ast.literal_eval(text.value).split()
                    )
        found[section] = {
            name: replace(key, help=Template(helps[name]).substitute(words))
            for name, key in KEYS[section].items()
        }
    return found


def section_note(section: str) -> str:
    """The note on a whole section, in Markdown; "" for none."""
    doc = inspect.getdoc(get_type_hints(Sections).get(section)) or ""
    return " ".join(doc.split())


def example_text(keys: Keys | None = None) -> str:
    """The example slurm-rl.toml: every key with its default, and its meaning as a comment."""
    lines = [line for paragraph in _OPENING for line in _comment(paragraph)]
    for section, definitions in (keys or documented_keys()).items():
        lines += ["", *_comment(plain(section_note(section))), f"[{section}]"]
        for name, key in definitions.items():
            line = key_line(name, key.default)
            mark = "# " if follows(section, name) else ""
            lines += [*_comment(plain(markdown_of(key))), f"{mark}{line}"]
    lines += ["", *_comment(SHARES_NOTE), f"[{SHARES}]"]
    lines += [key_line(*each) for each in shares_of(None).items()]
    lines += ["", *_comment(UTILITY_NOTE), *(f"# {line}" for line in _UTILITY_LINES)]
    lines += ["", *_comment(f"{JOB_CLASS_NOTE} Without any rule, these apply:")]
    lines += [f"# {line}" for rule in DEFAULT_JOB_CLASS_RULES for line in rule_lines(rule)]
    return "\n".join(lines) + "\n"


def follows(section: str, name: str) -> bool:
    """Whether the value of a missing key follows from other keys, so that it must stay missing."""
    return section == "reward" or (section, name) == ("goals", "shares")


def _comment(text: str) -> Iterator[str]:
    wrapped = textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    yield from (f"# {line}" for line in wrapped)


def toml_value(value: Any) -> str:
    """A value as TOML; JSON differs only in one sign and in tables."""
    if isinstance(value, Mapping):
        entries = ", ".join(key_line(*each) for each in value.items())
        return f"{{ {entries} }}" if entries else "{}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_line(name: str, value: Any) -> str:
    """One line of TOML, `name = value`."""
    return f"{shown(name)} = {toml_value(value)}"


def shares_of(shares: Mapping[str, float] | None, source: str = DEFAULT_SOURCE) -> dict[str, Any]:
    """The keys of [shares]."""
    return {FROM: source} if shares is None else dict(shares)


def rule_table(rule: JobClassRule) -> dict[str, Any]:
    """The keys of one [[job_class]]."""
    given = {key: getattr(rule, name) for key, name in FIELDS.items()}
    return {key: value for key, value in given.items() if value is not None}


def rule_lines(rule: JobClassRule) -> list[str]:
    """A job-class rule as TOML: its [[job_class]] header and a line for each key."""
    return [f"[[{JOB_CLASS}]]", *(key_line(*each) for each in rule_table(rule).items())]


def class_lines(name: str, own: UtilityClass) -> list[str]:
    """A class as TOML: its [utility.NAME] header and a line for each key."""
    return [f"[{UTILITY}.{shown(name)}]", *(key_line(*each) for each in own.table.items())]


def generated_files(top: Path = TOP) -> dict[Path, str]:
    """Path below the top of the source tree -> content."""
    return {
        Path("deploy") / "slurm-rl.toml": example_text(),
        DOCUMENT: with_tables((top / DOCUMENT).read_text()),
    }


def with_tables(document: str) -> str:
    """The document with new tables of the keys."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no line {BEGIN} or no line {END}")
    parts = []
    for section, definitions in documented_keys().items():
        note = section_note(section)
        rows = ["| key | default | meaning |", "|---|---|---|"]
        for name, key in definitions.items():
            rows.append(f"| `{name}` | `{toml_value(key.default)}` | {markdown_of(key)} |")
        parts.append("\n".join([f"## [{section}]", "", *([note, ""] if note else []), *rows, ""]))
    return "\n".join([f"{before}{begin}", *parts, f"{end}{after}"])


if __name__ == "__main__":
    for written, text in generated_files().items():
        write_whole(TOP / written, text)
