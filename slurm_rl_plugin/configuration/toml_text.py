"""Writes TOML: values, shares and job-class rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, UTILITY
from slurm_rl_plugin.configuration.reading.files import shown
from slurm_rl_plugin.configuration.reading.job_class_rules import FIELDS
from slurm_rl_plugin.configuration.reading.shares import DEFAULT_SOURCE, FROM
from slurm_rl_plugin.domain.job_class import JobClassRule
from slurm_rl_plugin.domain.utility_class import UtilityClass


def toml_value(value: Any) -> str:
    """A text, number, truth value or list, where JSON and TOML agree but for a sign; or a table."""
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
