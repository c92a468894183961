"""The site's configuration: TOML becomes typed objects, and every fault is named at once."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from slurm_rl_plugin.domain.job_class import (
    DEFAULT_JOB_CLASS_RULES,
    JobClassifier,
    JobClassRule,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle import CycleSettings
from slurm_rl_plugin.hook.pace import Pace
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.reward import RewardWeights

#: Names the model that is installed with the package.
SHIPPED_MODEL = "default"
#: Models that come with the package, by name.
SHIPPED_MODELS = (SHIPPED_MODEL, "responsive-reserve", "reactive-grids", "non-markovian")
DEFAULT_PATH = Path("/etc/slurm-rl/slurm-rl.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One configuration key: its type, default, bounds and meaning, the source of everything."""

    kind: type
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, or None."""
        allowed: tuple[type, ...] = (int, float) if self.kind is float else (self.kind,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and self.kind is not bool):
            return f"is {value!r}, give a {_KIND_NAMES[self.kind]}"
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            return f"is {value!r}, give a list of names"
        if isinstance(value, int | float):
            return self._out_of_bounds(value)
        if isinstance(value, str) and len(value) < self.least:
            return "is empty, give a path"
        if self.choices and value not in self.choices:
            return f"is {value!r}, give one of {', '.join(self.choices)}"
        return None

    def _out_of_bounds(self, value: float) -> str | None:
        if math.isinf(value):
            return f"is {value!r}, give a finite number"
        if not self.least <= value <= self.most:
            bound = f" and at most {self.most:g}" if self.most < math.inf else ""
            return f"is {value!r}, give at least {self.least:g}{bound}"
        return None


_KIND_NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    list: "list",
}

KEYS: dict[str, dict[str, Key]] = {
    "hook": {
        "mode": Key(
            kind=str,
            default="shadow",
            choices=("shadow", "active"),
            meaning="shadow decides and reports but writes nothing; active writes factors",
        ),
        "cycle": Key(kind=float, default=30.0, least=0.1, meaning="most seconds between cycles"),
        "soonest_cycle": Key(
            kind=float,
            default=0.0,
            least=0,
            meaning="seconds until a cycle may follow another when jobs have come, started or "
            "ended; 0 for half of the scheduler's own pass",
        ),
        "busy_share": Key(
            kind=float,
            default=0.1,
            least=0.001,
            most=1,
            meaning="most of the time that the batch system may be busy with our calls",
        ),
        "influence_hours": Key(
            kind=float,
            default=0.0,
            least=0,
            meaning="hours of age that the best place in our order is worth; 0 for no bound: our "
            "order wins",
        ),
        "beside_controllers": Key(
            kind=bool,
            default=False,
            meaning="a daemon runs beside each controller: only the one in charge's acts",
        ),
        "max_writes": Key(kind=int, default=2000, least=0, meaning="most writes in one cycle"),
        "disable_file": Key(
            kind=str,
            default="/etc/slurm-rl/DISABLE",
            meaning="while this file exists, nothing is written and our factors are taken back",
        ),
        "state_file": Key(
            kind=str,
            least=1,
            default="/var/lib/slurm-rl/state.json",
            meaning="where the jobs that carry a factor of ours are remembered",
        ),
        "audit_file": Key(
            kind=str,
            default="/var/log/slurm-rl/audit.jsonl",
            meaning="one JSON line a cycle and a write; empty for none",
        ),
    },
    "batch_system": {
        "adapter": Key(
            kind=str,
            default="auto",
            choices=("auto", "slurm_commands", "slurm"),
            meaning="how Slurm is reached: slurm is by pyslurm, auto takes it where it fits",
        ),
        "timeout": Key(
            kind=float, default=10.0, least=0.1, meaning="seconds until a command is killed"
        ),
        "history_days": Key(
            kind=float,
            default=30.0,
            least=0,
            meaning="days of past runs that a start reads from accounting; 0 for none",
        ),
    },
    "policy": {
        "model": Key(
            kind=str,
            default=SHIPPED_MODEL,
            meaning="path of a .onnx model, or the name of a rule such as sjf or a shipped model",
        ),
        "fallback": Key(
            kind=str,
            default="fifo",
            choices=("fifo", "site"),
            meaning="when the model fails: order by submission, or take our factors back",
        ),
        "inference_deadline": Key(
            kind=float, default=2.0, least=0.001, meaning="seconds that a decision may take"
        ),
        "breaker_failures": Key(
            kind=int, default=5, least=1, meaning="failures in a row until the model rests"
        ),
        "breaker_rest": Key(kind=int, default=10, least=0, meaning="cycles that it rests"),
    },
    "reward": {
        "time_utility": Key(kind=float, default=0.25, least=0, meaning="weight of time utility"),
        "responsiveness": Key(
            kind=float, default=0.25, least=0, meaning="weight of responsiveness"
        ),
        "fairness": Key(kind=float, default=0.5, least=0, meaning="weight of fairness"),
        "tail": Key(kind=float, default=0.0, least=0, meaning="weight of the longest wait"),
        "batch_delay": Key(
            kind=float, default=0.0, least=0, meaning="weight of what held processors cost batch"
        ),
        "slowdown": Key(
            kind=float, default=10.0, least=0, meaning="weight of the mean bounded slowdown"
        ),
    },
    "guard_rails": {
        "starvation_hours": Key(
            kind=float,
            default=72.0,
            least=0,
            meaning="a job eligible for longer goes first; 0 for no bound",
        ),
        "exempt_accounts": Key(kind=list, default=[], meaning="accounts that are never touched"),
        "exempt_partitions": Key(
            kind=list, default=[], meaning="partitions that are never touched"
        ),
        "exempt_qos": Key(kind=list, default=[], meaning="QOS that are never touched"),
    },
    "metrics": {
        "address": Key(kind=str, default="127.0.0.1", meaning="address to serve /metrics on"),
        "port": Key(
            kind=int, default=9343, least=0, most=65535, meaning="port; 0 takes any free one"
        ),
        "max_accounts": Key(
            kind=int, default=200, least=1, meaning="accounts with series of their own"
        ),
    },
}
#: Sections with free keys, checked by hand.
_FREE_SECTIONS = ("shares", "job_class")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The whole configuration, checked.

    Attributes:
        values: section -> key -> value, defaults filled in.
        shares: account -> share with sum 1; None takes the batch system's own.
        classifier: job-class rules.
        has_class_rules: whether the site wrote rules of its own.
        reward: weights that the model must have been trained towards.
    """

    values: Mapping[str, Mapping[str, Any]]
    shares: Mapping[str, float] | None = None
    classifier: JobClassifier = field(default_factory=JobClassifier)
    has_class_rules: bool = False
    reward: RewardWeights = field(default_factory=RewardWeights)

    @property
    def cycle_settings(self) -> CycleSettings:
        """What the cycle may do."""
        hook, policy = self.values["hook"], self.values["policy"]
        return CycleSettings(
            shadow=hook["mode"] == "shadow",
            max_writes=hook["max_writes"],
            influence=float(hook["influence_hours"]) or math.inf,
            inference_deadline=policy["inference_deadline"],
            fallback=policy["fallback"],
            breaker_failures=policy["breaker_failures"],
            breaker_rest=policy["breaker_rest"],
            beside_controllers=hook["beside_controllers"],
        )

    @property
    def disable_file(self) -> Path | None:
        """While it exists nothing is written; None for none."""
        name = self.values["hook"]["disable_file"]
        return Path(name) if name else None

    @property
    def pace(self) -> Pace:
        """When cycles are due."""
        hook = self.values["hook"]
        return Pace(
            longest=float(hook["cycle"]),
            soonest=float(hook["soonest_cycle"]),
            busy_share=float(hook["busy_share"]),
        )

    @property
    def starvation_bound(self) -> float:
        """Seconds; inf for no bound."""
        hours = float(self.values["guard_rails"]["starvation_hours"])
        return hours * HOUR if hours else math.inf


def read_configuration(path: Path | None) -> Configuration:
    """Read a TOML file; None takes the defaults.

    Raises:
        ConfigurationError: lists every fault, one line each.
    """
    if path is None:
        return parse_configuration({}, "defaults")
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(
            f"configuration {path} does not exist: write one or give --config."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"configuration {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"configuration {path} is no TOML: {error}.") from None
    return parse_configuration(content, str(path))


def parse_configuration(content: Mapping[str, Any], where: str) -> Configuration:
    """Check a parsed TOML document; `where` names it in faults.

    Raises:
        ConfigurationError: lists every fault, one line each.
    """
    faults: list[str] = []
    for section in content:
        if section not in KEYS and section not in _FREE_SECTIONS:
            near = _nearest(section, [*KEYS, *_FREE_SECTIONS])
            faults.append(f"{where}: section [{section}] is unknown{near}.")
    values = {name: _section(name, content.get(name, {}), where, faults) for name in KEYS}
    shares = _shares(content.get("shares", {"from": "slurm"}), where, faults)
    rules = _rules(content.get("job_class", []), where, faults)
    reward = RewardWeights()
    try:
        reward = RewardWeights(**{key: float(value) for key, value in values["reward"].items()})
    except ConfigurationError as error:
        faults.append(f"{where}: section [reward]: {error}")
    if faults:
        raise ConfigurationError(faults)
    classifier = JobClassifier(rules or DEFAULT_JOB_CLASS_RULES)
    return Configuration(
        values=values,
        shares=shares,
        classifier=classifier,
        has_class_rules=bool(rules),
        reward=reward,
    )


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f", did you mean {near[0]}?" if near else f", give one of {', '.join(known)}"


def _section(name: str, given: Any, where: str, faults: list[str]) -> dict[str, Any]:
    keys = KEYS[name]
    values = {key: definition.default for key, definition in keys.items()}
    if not isinstance(given, Mapping):
        faults.append(f"{where}: [{name}] is no section: write [{name}] on a line of its own.")
        return values
    for key, value in given.items():
        if key not in keys:
            faults.append(f"{where}: [{name}] {key} is unknown{_nearest(key, list(keys))}.")
            continue
        fault = keys[key].fault(value)
        if fault:
            faults.append(f"{where}: [{name}] {key} {fault}.")
        else:
            values[key] = value
    return values


def _shares(given: Any, where: str, faults: list[str]) -> dict[str, float] | None:
    if not isinstance(given, Mapping):
        faults.append(f"{where}: [shares] is no section: write one line for each account.")
        return None
    if "from" in given:
        if given != {"from": "slurm"}:
            faults.append(f'{where}: [shares] give either from = "slurm" or one share an account.')
        return None
    wrong = [
        name
        for name, value in given.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1
    ]
    faults.extend(
        f"{where}: [shares] {name} is {given[name]!r}, give a number from 0 to 1." for name in wrong
    )
    total = sum(value for name, value in given.items() if name not in wrong)
    if not wrong and abs(total - 1.0) > 1e-6:
        faults.append(f"{where}: [shares] sum to {total:g}: make them sum to 1.")
    return None if wrong else {name: float(value) for name, value in given.items()}


def _rules(given: Any, where: str, faults: list[str]) -> tuple[JobClassRule, ...]:
    rules: list[JobClassRule] = []
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{where}: job_class is no list: write each rule under [[job_class]].")
        return ()
    known = set(JobClassRule.__dataclass_fields__) - {"job_class"} | {"class"}
    for number, each in enumerate(given, start=1):
        unknown = [key for key in each if key not in known]
        faults.extend(
            f"{where}: [[job_class]] rule {number}: {key} is unknown{_nearest(key, sorted(known))}."
            for key in unknown
        )
        if unknown:
            continue
        try:
            fields = {key: value for key, value in each.items() if key != "class"}
            rules.append(JobClassRule(job_class=each.get("class", ""), **fields))
        except (ConfigurationError, TypeError) as error:
            faults.append(f"{where}: [[job_class]] rule {number}: {error}")
    return tuple(rules)
