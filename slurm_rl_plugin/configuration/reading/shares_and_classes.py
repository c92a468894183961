"""The tables that are no keys: [shares], [[job_class]] and [utility.NAME].

Shares and rules of a later file replace those of earlier ones, its classes those of their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.configuration.keys.key import JOB_CLASS, SHARES, UTILITY, nearest
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown
from slurm_rl_plugin.configuration.reading.given_keys import DEFAULT
from slurm_rl_plugin.domain.job_class import (
    DEFAULT_JOB_CLASS_RULES,
    JobClassifier,
    JobClassRule,
)
from slurm_rl_plugin.domain.utility_class import BATCH, BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError

#: Key that names a batch system, whose own shares are then taken.
FROM = "from"
DEFAULT_SOURCE, *_OTHERS = BATCH_SYSTEMS
_EITHER = (
    f'give either from = "{DEFAULT_SOURCE}" (or '
    + ", ".join(f'"{name}"' for name in _OTHERS)
    + ") or one share an account"
)

#: Key of a rule -> field of `JobClassRule`.
FIELDS = {"class": "job_class"} | {
    name: name for name in JobClassRule.__dataclass_fields__ if name != "job_class"
}
#: Keys of a class.
CLASS_KEYS = tuple(each.name for each in fields(UtilityClass))


@dataclass(frozen=True, slots=True)
class GivenShares:
    """Shares and where they are given.

    Attributes:
        shares: account -> share with sum 1; None takes the batch system's own.
        source: the word that says so.
        origins: key of [shares] -> `file:line`.
    """

    shares: Mapping[str, float] | None = None
    source: str = DEFAULT_SOURCE
    origins: Mapping[str, str] = field(default_factory=lambda: {FROM: DEFAULT})


def take_shares(before: GivenShares, file: ConfigurationFile, faults: list[str]) -> GivenShares:
    """The shares of a file; those of an earlier one where it gives none."""
    if SHARES not in file.content:
        return before
    given, where = file.content[SHARES], file.where(SHARES)
    if not isinstance(given, Mapping):
        faults.append(f"{where}: [shares] is no section: write one line for each account.")
        return before
    origins = {key: file.where(SHARES, key) for key in given}
    if FROM in given:
        problem = _problem_of_source(given)
        if problem is not None:
            faults.append(f"{origins[FROM]}: [shares] {problem}.")
            return before
        return GivenShares(None, given[FROM], origins)
    wrong = [account for account, share in given.items() if not _is_share(share)]
    faults.extend(
        f"{origins[account]}: [shares] {shown(account)} is {given[account]!r}, give a "
        "number from 0 to 1."
        for account in wrong
    )
    if wrong:
        return before
    if abs(sum(given.values()) - 1.0) > 1e-6:
        faults.append(f"{where}: [shares] {_wrong_sum(given)}: make them sum to 1.")
    shares = {account: float(share) for account, share in given.items()}
    return GivenShares(shares, origins=origins)


def _problem_of_source(given: Mapping[str, Any]) -> str | None:
    source = given[FROM]
    if source in tuple(BATCH_SYSTEMS):  # it may be of any type
        return None if len(given) == 1 else _EITHER
    return f"from is {source!r}: {_EITHER}"


def _is_share(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= 1


def _wrong_sum(given: Mapping[str, float]) -> str:
    if not given:
        return "names no account"
    each = ", ".join(f"{shown(account)} {share:g}" for account, share in given.items())
    return f"sum to {sum(given.values()):g} ({each})"


@dataclass(frozen=True, slots=True)
class GivenRules:
    """Rules and classes, and where they are given.

    Attributes:
        rules: in order.
        given: whether a file gives any; otherwise they are those of the product.
        origins: of each, `file:line`.
        classes: by name, those of the paper among them.
        class_origins: of those that a file gives.
    """

    rules: tuple[JobClassRule, ...] = DEFAULT_JOB_CLASS_RULES
    given: bool = False
    origins: tuple[str, ...] = (DEFAULT,) * len(DEFAULT_JOB_CLASS_RULES)
    classes: Mapping[str, UtilityClass] = field(default_factory=lambda: BUILT_IN)
    class_origins: Mapping[str, str] = field(default_factory=dict)


def take_rules(before: GivenRules, file: ConfigurationFile, faults: list[str]) -> GivenRules:
    """The rules of a file; those of an earlier one where it gives none."""
    if JOB_CLASS not in file.content:
        return before
    given, where = file.content[JOB_CLASS], file.where(JOB_CLASS)
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{where}: job_class is no list: write each rule under [[job_class]].")
        return before
    if not given:
        return GivenRules(classes=before.classes, class_origins=before.class_origins)
    rules = [_rule(file, place, each, faults) for place, each in enumerate(given)]
    origins = tuple(file.where(JOB_CLASS, place) for place in range(len(given)))
    known = tuple(rule for rule in rules if rule is not None)
    return replace(before, rules=known, given=True, origins=origins)


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


def take_classes(before: GivenRules, file: ConfigurationFile, faults: list[str]) -> GivenRules:
    """The same with the classes of a file."""
    given = file.content.get(UTILITY, {})
    tables = given.values() if isinstance(given, Mapping) else [given]
    if not all(isinstance(each, Mapping) for each in tables):
        faults.append(f"{file.where(UTILITY)}: [utility] has tables only: write [utility.NAME].")
        return before
    classes, origins = {**before.classes}, {**before.class_origins}
    for name, keys in given.items():
        where = file.where(UTILITY, name)
        try:
            classes[name], origins[name] = _class(name, keys), where
        except ConfigurationError as error:
            classes.setdefault(name, BUILT_IN[BATCH])  # rules for it are right
            faults.append(f"{where}: [utility.{shown(name)}] {error}")
    return replace(before, classes=classes, class_origins=origins)


def _class(name: str, given: Mapping[str, Any]) -> UtilityClass:
    own = BUILT_IN.get(name)  # these two are interactive or not by their names
    known = [key for key in CLASS_KEYS if own is None or key != "interactive"]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{shown(key)} is unknown{nearest(key, known)}")
    return UtilityClass(**given) if own is None else replace(own, **given)


def classifier_of(given: GivenRules, faults: list[str]) -> JobClassifier:
    """The rules with their classes; a rule for an unknown class is a fault, and left out."""
    known = []
    for number, rule in enumerate(given.rules):
        try:
            JobClassifier((rule,), given.classes)
            known.append(rule)
        except ConfigurationError as error:
            faults.append(f"{given.origins[number]}: [[job_class]] rule {number + 1}: {error}")
    return JobClassifier(tuple(known), given.classes)
