"""The tables that are no keys: [shares], [[job_class]] and [utility.NAME]; [[site]] for `route`.

Shares and rules of a later file replace those of earlier ones, its classes those of their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.brokers.live.remote_site import SiteAddress
from slurm_rl_plugin.configuration.files import ConfigurationFile, read_file, shown
from slurm_rl_plugin.configuration.key import DEFAULT, JOB_CLASS, SHARES, UTILITY, nearest
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES, JobClassifier, JobClassRule
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
    """Shares and where they are given."""

    #: account -> share with sum 1; None takes the batch system's own
    shares: Mapping[str, float] | None = None
    source: str = DEFAULT_SOURCE
    #: key of [shares] -> `file:line`
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
        source = given[FROM]
        if source not in tuple(BATCH_SYSTEMS):  # it may be of any type
            faults.append(f"{origins[FROM]}: [shares] from is {source!r}: {_EITHER}.")
        elif len(given) > 1:
            faults.append(f"{origins[FROM]}: [shares] {_EITHER}.")
        else:
            return GivenShares(None, source, origins)
        return before
    wrong = [
        account
        for account, share in given.items()
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1
    ]
    faults.extend(
        f"{origins[account]}: [shares] {shown(account)} is {given[account]!r}, give a "
        "number from 0 to 1."
        for account in wrong
    )
    if wrong:
        return before
    if abs(sum(given.values()) - 1.0) > 1e-6:
        each = ", ".join(f"{shown(account)} {share:g}" for account, share in given.items())
        found = f"sum to {sum(given.values()):g} ({each})" if given else "names no account"
        faults.append(f"{where}: [shares] {found}: make them sum to 1.")
    shares = {account: float(share) for account, share in given.items()}
    return GivenShares(shares, origins=origins)


@dataclass(frozen=True, slots=True)
class GivenRules:
    """Rules and classes, and where they are given."""

    rules: tuple[JobClassRule, ...] = DEFAULT_JOB_CLASS_RULES
    given: bool = False  #: whether a file gives any; otherwise they are those of the product
    origins: tuple[str, ...] = (DEFAULT,) * len(DEFAULT_JOB_CLASS_RULES)  #: of each, `file:line`
    #: by name, those of the paper among them
    classes: Mapping[str, UtilityClass] = field(default_factory=lambda: BUILT_IN)
    class_origins: Mapping[str, str] = field(default_factory=dict)  #: of those that a file gives


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
    rules = []
    for place, each in enumerate(given):
        name, found = f"[[job_class]] rule {place + 1}", len(faults)
        faults.extend(
            f"{file.where(JOB_CLASS, place, key)}: {name}: {shown(key)} is unknown"
            f"{nearest(key, sorted(FIELDS))}"
            for key in each
            if key not in FIELDS
        )
        if len(faults) > found:
            continue
        try:
            named = {FIELDS[key]: value for key, value in each.items()}
            rules.append(JobClassRule(**{"job_class": "", **named}))
        except (ConfigurationError, TypeError) as error:
            faults.append(f"{file.where(JOB_CLASS, place)}: {name}: {error}")
    origins = tuple(file.where(JOB_CLASS, place) for place in range(len(given)))
    return replace(before, rules=tuple(rules), given=True, origins=origins)


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


#: Key of a site -> field of `SiteAddress`; those after the third may be left out.
_SITE_FIELDS = {
    "name": "name",
    "url": "url",
    "token_file": "token_file",
    "ca": "authority",
    "client_certificate": "client_certificate",
    "client_key": "client_key",
}
_NO_FILES = frozenset({"name", "url"})


def read_sites(paths: list[Path]) -> list[SiteAddress]:
    """The sites of all files, in order; a later file's site takes the place of one of its name."""
    faults: list[str] = []
    found: dict[str, SiteAddress] = {}
    for path in paths:
        file = read_file(path, faults)
        if file is not None:
            found |= {site.name: site for site in _sites(file, path.parent, faults)}
    if faults:
        raise ConfigurationError(faults)
    return list(found.values())


def _sites(file: ConfigurationFile, folder: Path, faults: list[str]) -> Iterator[SiteAddress]:
    faults += [
        f"{file.where(key)}: {shown(key)} is unknown: write [[site]]."
        for key in file.content
        if key != "site"
    ]
    given = file.content.get("site", [])
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{file.where('site')}: site is no list: write each under [[site]].")
        return
    names: set[str] = set()
    for place, each in enumerate(given):
        where = f"{file.where('site', place)}: [[site]] {place + 1}"
        problems = [*_problems(each)]
        name = each.get("name")
        if isinstance(name, str) and name in names:
            problems.append(f"name {name!r} is given twice: each site has its own.")
        if problems:
            faults += [f"{where}: {problem}" for problem in problems]
            continue
        names.add(str(name))
        # a path of a file is taken from the folder of the file that names it
        found: dict[str, Any] = {
            to: each[key] if key in _NO_FILES else folder / Path(each[key]).expanduser()
            for key, to in _SITE_FIELDS.items()
            if key in each
        }
        try:
            yield SiteAddress(**found)
        except ConfigurationError as error:
            faults.append(f"{where}: {error}")


def _problems(site: Mapping[str, Any]) -> Iterator[str]:
    for key, value in site.items():
        if key not in _SITE_FIELDS:
            yield f"{shown(key)} is unknown{nearest(key, list(_SITE_FIELDS))}"
        elif not isinstance(value, str) or not value or not value.isprintable():
            yield f"{key} is {value!r}, give text."
    if "name" not in site:
        yield "name is missing: give the cluster's."
    if ("url" in site) != ("token_file" in site):
        yield "url and token_file go together: give both, or neither, for --broker learning alone."
    if ("client_certificate" in site) != ("client_key" in site):
        yield "client_certificate and client_key go together: give both, or neither."
