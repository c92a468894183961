"""The list [[job_class]]: rules in order, those of a later file replace those of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS
from slurm_rl_plugin.configuration.keys.names import nearest
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown
from slurm_rl_plugin.configuration.reading.given_keys import DEFAULT
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES, JobClassRule
from slurm_rl_plugin.errors import ConfigurationError

#: Key of a rule -> field of `JobClassRule`.
FIELDS = {"class": "job_class"} | {
    name: name for name in JobClassRule.__dataclass_fields__ if name != "job_class"
}


@dataclass(frozen=True, slots=True)
class GivenRules:
    """Rules and where they are given.

    Attributes:
        rules: in order.
        given: whether a file gives any; otherwise they are those of the product.
        origins: of each, `file:line`.
    """

    rules: tuple[JobClassRule, ...] = DEFAULT_JOB_CLASS_RULES
    given: bool = False
    origins: tuple[str, ...] = (DEFAULT,) * len(DEFAULT_JOB_CLASS_RULES)


def take_rules(before: GivenRules, file: ConfigurationFile, faults: list[str]) -> GivenRules:
    """The rules of a file; those of an earlier one where it gives none."""
    if JOB_CLASS not in file.content:
        return before
    given, where = file.content[JOB_CLASS], file.where(JOB_CLASS)
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{where}: job_class is no list: write each rule under [[job_class]].")
        return before
    if not given:
        return GivenRules()
    rules = [_rule(file, place, each, faults) for place, each in enumerate(given)]
    origins = tuple(file.where(JOB_CLASS, place) for place in range(len(given)))
    return GivenRules(tuple(rule for rule in rules if rule is not None), True, origins)


def _rule(
    file: ConfigurationFile, place: int, given: Mapping[str, Any], faults: list[str]
) -> JobClassRule | None:
    name = f"[[job_class]] rule {place + 1}"
    unknown = [key for key in given if key not in FIELDS]
    faults.extend(
        f"{file.where(JOB_CLASS, place, key)}: {name}: {shown(key)} is unknown"
        f"{nearest(key, sorted(FIELDS))}"
        for key in unknown
    )
    if unknown:
        return None
    try:
        fields = {FIELDS[key]: value for key, value in given.items()}
        return JobClassRule(**{"job_class": "", **fields})
    except (ConfigurationError, TypeError) as error:
        faults.append(f"{file.where(JOB_CLASS, place)}: {name}: {error}")
        return None
