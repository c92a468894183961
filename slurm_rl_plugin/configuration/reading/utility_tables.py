"""The tables [utility.NAME]: classes of service, each name of a later file replacing an earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, UTILITY
from slurm_rl_plugin.configuration.keys.names import nearest
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown
from slurm_rl_plugin.configuration.reading.job_class_rules import GivenRules
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError

#: Keys of a class; the two built-in ones are interactive or not by their name.
KEYS = tuple(each.name for each in fields(UtilityClass))


@dataclass(frozen=True, slots=True)
class GivenUtilities:
    """Classes by name, those of the paper among them, and where files give any (`file:line`)."""

    classes: Mapping[str, UtilityClass] = field(default_factory=lambda: BUILT_IN)
    origins: Mapping[str, str] = field(default_factory=dict)


def take_utilities(
    before: GivenUtilities, file: ConfigurationFile, faults: list[str]
) -> GivenUtilities:
    """The classes of a file over those of earlier ones."""
    given = file.content.get(UTILITY, {})
    if not isinstance(given, Mapping) or not all(
        isinstance(each, Mapping) for each in given.values()
    ):
        faults.append(f"{file.where(UTILITY)}: [utility] has tables only: write [utility.NAME].")
        return before
    classes, origins = {**before.classes}, {**before.origins}
    for name, keys in given.items():
        where = file.where(UTILITY, name)
        try:
            classes[name] = _class(name, keys)
            origins[name] = where
        except ConfigurationError as error:
            faults.append(f"{where}: [utility.{shown(name)}] {error}")
    return GivenUtilities(classes, origins)


def _class(name: str, given: Mapping[str, Any]) -> UtilityClass:
    own = BUILT_IN.get(name)
    known = KEYS if own is None else tuple(key for key in KEYS if key != "interactive")
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{shown(key)} is unknown{nearest(key, known)}")
    return UtilityClass(**given) if own is None else replace(own, **given)


def classifier_of(rules: GivenRules, utilities: GivenUtilities, faults: list[str]) -> JobClassifier:
    """The rules with their classes; a rule for an unknown class is a fault, and left out."""
    known = []
    for number, (rule, where) in enumerate(zip(rules.rules, rules.origins, strict=False), start=1):
        try:
            JobClassifier((rule,), utilities.classes)
            known.append(rule)
        except ConfigurationError as error:
            faults.append(f"{where}: [[{JOB_CLASS}]] rule {number}: {error}")
    return JobClassifier(tuple(known), utilities.classes)
