"""The example file: every key with its default and what it means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from slurm_rl_plugin.configuration.keys.definitions import SECTION_NOTES, SHARES
from slurm_rl_plugin.configuration.keys.key import Keys
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.keys.text import markdown_of, plain
from slurm_rl_plugin.configuration.toml_text import key_line, rule_lines, shares_of
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES

_WIDTH = 99
_OPENING = (
    "slurm-rl.toml(5): every key with its default. A key that is left out takes its default, also "
    "that of a later release.",
    "conf.d/*.toml beside this file are read after it, in the order of their names; variables such "
    "as SLURM_RL_HOOK_MODE go over files, and --set hook.mode=shadow over variables. "
    "`slurm-rl show-config` says what is in force and where it comes from.",
)
_SHARES = (
    'Either from = "slurm", which takes the raw shares of the account tree (with OpenPBS from = '
    '"pbs", those of its fairshare groups), or one line for each '
    "account with its fraction, such as physics = 0.7; they sum to 1."
)
_JOB_CLASS = (
    "Rules in order; the first that matches decides, and a job that none matches is batch. Without "
    "any these apply:"
)

_UTILITY = (
    "A class of service that [[job_class]] rules may name, with its time utility; see "
    "slurm-rl.toml(5). Without any there are interactive and batch:"
)
_UTILITY_LINES = ("[utility.SDJ]", 'form = "deadline"', "sigma = 60", "interactive = true")


def example_text(keys: Keys = KEYS) -> str:
    """The example slurm-rl.toml: every key with its default, its meaning as a comment."""
    lines = [line for paragraph in _OPENING for line in _comment(paragraph)]
    for section, definitions in keys.items():
        lines += ["", *_comment(plain(SECTION_NOTES.get(section, ""))), f"[{section}]"]
        for name, key in definitions.items():
            lines += [*_comment(plain(markdown_of(key))), key_line(name, key.default)]
    lines += ["", *_comment(_SHARES), f"[{SHARES}]"]
    lines += [key_line(*each) for each in shares_of(None).items()]
    lines += ["", *_comment(_UTILITY), *(f"# {line}" for line in _UTILITY_LINES)]
    lines += ["", *_comment(_JOB_CLASS)]
    lines += [f"# {line}" for rule in DEFAULT_JOB_CLASS_RULES for line in rule_lines(rule)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> Iterator[str]:
    wrapped = textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    yield from (f"# {line}" for line in wrapped)
