"""The tables [shares], [[job_class]] and [utility.NAME]; [[site]] for `route`.

Shares and rules of a later file replace all earlier ones; a class replaces that of its name.
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

#: Key that names the batch system whose own shares apply.
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


_DEFAULT_RULES = dict(enumerate(DEFAULT_JOB_CLASS_RULES, start=1))
_DEFAULT_ORIGINS = {str(number): DEFAULT for number in _DEFAULT_RULES}


@dataclass(slots=True)
class GivenTables:
    """Collects shares, rules and classes of one file after another, with their faults."""

    faults: list[str]  #: one sentence each
    #: account -> share with sum 1; None takes the batch system's own
    shares: dict[str, float] | None = None
    source: str = DEFAULT_SOURCE
    #: valid rules by their number from 1
    rules: dict[int, JobClassRule] = field(default_factory=lambda: {**_DEFAULT_RULES})
    has_rules: bool = False  #: whether a file gives any; else the defaults apply
    #: by name, with the built-in ones
    classes: dict[str, UtilityClass] = field(default_factory=lambda: {**BUILT_IN})
    #: `file:line` of each key of [shares], of each rule by its number from 1, and of each class by
    #: its name
    origins: dict[str, dict[str, str]] = field(
        default_factory=lambda: {SHARES: {FROM: DEFAULT}, JOB_CLASS: _DEFAULT_ORIGINS}
    )

    def take(self, file: ConfigurationFile) -> None:
        """Take the tables of a file, which replace earlier ones."""
        if SHARES in file.content:
            self._take_shares(file, file.content[SHARES])
        if JOB_CLASS in file.content:
            self._take_rules(file, file.content[JOB_CLASS])
        self._take_classes(file, file.content.get(UTILITY, {}))

    def _take_shares(self, file: ConfigurationFile, given: Any) -> None:
        where, found = file.where(SHARES), len(self.faults)
        if not isinstance(given, Mapping):
            self.faults.append(
                f"{where}: shares must be a section: write one line for each account."
            )
            return
        origins = {key: file.where(SHARES, key) for key in given}
        if FROM in given:
            source = given[FROM]
            if source not in tuple(BATCH_SYSTEMS):  # of any type
                self.faults.append(f"{origins[FROM]}: [shares] from = {source!r}: {_EITHER}.")
            elif len(given) > 1:
                self.faults.append(f"{origins[FROM]}: [shares] {_EITHER}.")
            else:
                self.shares, self.source, self.origins[SHARES] = None, source, origins
            return
        self.faults.extend(
            f"{origins[account]}: [shares] {shown(account)} must be a number from 0 to 1, not "
            f"{share!r}."
            for account, share in given.items()
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1
        )
        if len(self.faults) > found:
            return
        if abs(sum(given.values()) - 1.0) > 1e-6:
            each = ", ".join(f"{shown(account)} {share:g}" for account, share in given.items())
            total = f"sum to {sum(given.values()):g} ({each})" if given else "names no account"
            self.faults.append(f"{where}: [shares] {total}: make them sum to 1.")
        self.shares = {account: float(share) for account, share in given.items()}
        self.source, self.origins[SHARES] = DEFAULT_SOURCE, origins

    def _take_rules(self, file: ConfigurationFile, given: Any) -> None:
        where = file.where(JOB_CLASS)
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            self.faults.append(
                f"{where}: job_class must be a list: write each rule under [[job_class]]."
            )
            return
        self.has_rules, self.rules = bool(given), {} if given else {**_DEFAULT_RULES}
        self.origins[JOB_CLASS] = {} if given else _DEFAULT_ORIGINS
        for place, each in enumerate(given):
            name, found = f"[[job_class]] rule {place + 1}", len(self.faults)
            self.origins[JOB_CLASS][str(place + 1)] = file.where(JOB_CLASS, place)
            self.faults.extend(
                f"{file.where(JOB_CLASS, place, key)}: {name}: {shown(key)} is unknown"
                f"{nearest(key, sorted(FIELDS))}"
                for key in each
                if key not in FIELDS
            )
            if len(self.faults) > found:
                continue
            try:
                named = {FIELDS[key]: value for key, value in each.items()}
                self.rules[place + 1] = JobClassRule(**{"job_class": "", **named})
            except (ConfigurationError, TypeError) as error:
                self.faults.append(f"{file.where(JOB_CLASS, place)}: {name}: {error}")

    def _take_classes(self, file: ConfigurationFile, given: Any) -> None:
        tables = given.values() if isinstance(given, Mapping) else [given]
        if not all(isinstance(each, Mapping) for each in tables):
            self.faults.append(
                f"{file.where(UTILITY)}: [utility] must have only tables: write [utility.NAME]."
            )
            return
        for name, keys in given.items():
            where = file.where(UTILITY, name)
            try:
                self.classes[name] = _class(name, keys)
                self.origins.setdefault(UTILITY, {})[name] = where
            except ConfigurationError as error:
                self.classes.setdefault(name, BUILT_IN[BATCH])  # so that rules for it are valid
                self.faults.append(f"{where}: [utility.{shown(name)}] {error}")

    def classifier(self) -> JobClassifier:
        """The rules with their classes, without rules for unknown classes, which are faults."""
        known = []
        for number, rule in self.rules.items():
            try:
                JobClassifier((rule,), self.classes)
                known.append(rule)
            except ConfigurationError as error:
                where = self.origins[JOB_CLASS][str(number)]
                self.faults.append(f"{where}: [[job_class]] rule {number}: {error}")
        return JobClassifier(tuple(known), self.classes)


def _class(name: str, given: Mapping[str, Any]) -> UtilityClass:
    own = BUILT_IN.get(name)  # the name decides whether these two are interactive
    known = [key for key in CLASS_KEYS if own is None or key != "interactive"]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{shown(key)} is unknown{nearest(key, known)}")
    return UtilityClass(**given) if own is None else replace(own, **given)


#: Key of a site -> field of `SiteAddress`; the last three are optional.
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
    """The sites of all files, in order; a later file's site replaces that of its name."""
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
        faults.append(f"{file.where('site')}: site must be a list: write each under [[site]].")
        return
    names: set[str] = set()
    for place, each in enumerate(given):
        where = f"{file.where('site', place)}: [[site]] {place + 1}"
        problems = [*_problems(each)]
        name = each.get("name")
        if isinstance(name, str) and name in names:
            problems.append(f"name {name!r} is given twice: give each site its own.")
        if problems:
            faults += [f"{where}: {problem}" for problem in problems]
            continue
        names.add(str(name))
        # a relative path is relative to the file that names it
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
            yield f"{key} must be a text, not {value!r}."
    if "name" not in site:
        yield "name is missing: give the name of the cluster."
    if ("url" in site) != ("token_file" in site):
        yield "url needs token_file: give both, or neither for --broker learning."
    if ("client_certificate" in site) != ("client_key" in site):
        yield "client_certificate needs client_key: give both or neither."
