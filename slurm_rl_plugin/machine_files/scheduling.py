"""How the cluster schedules: backfilling, weights of priorities, allocated resources."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from slurm_rl_plugin.domain.machine import BackfillSettings, PriorityWeights
from slurm_rl_plugin.machine_files.database import enforces_limits
from slurm_rl_plugin.machine_files.statements import NOTHING, Keys, slurm_keys, weights_of

_INTEGER = re.compile(r"\s*(-?\d{1,18})", re.ASCII)
BACKFILL, MULTIFACTOR, LINEAR = "sched/backfill", "priority/multifactor", "select/linear"


def parameters_of(settings: Keys) -> dict[str, str]:
    """SchedulerParameters by name in lower case; "" for a word alone.

    The first of equal parameters applies, since Slurm searches the text for it.
    """
    found: dict[str, str] = {}
    for word in settings.words("schedulerparameters"):
        name, _, number = word.partition("=")
        found.setdefault(name.strip().lower(), number.strip())
    for other, name in slurm_keys()["other_parameters"].items():
        if other in found:
            found.setdefault(name, found.pop(other))
    return found


def backfill_of(settings: Keys) -> BackfillSettings:
    """SchedulerType and SchedulerParameters; a value that Slurm refuses has Slurm's default."""
    given = parameters_of(settings)
    numbers = {
        name: found * each["unit"]
        for name, each in slurm_keys()["backfill"].items()
        if (found := _number(given.get(each["parameter"]), each["least"])) is not None
    }
    if _number(given.get("sched_interval"), -1) == -1:
        numbers["main_interval"] = math.inf  # -1 means never
    switched_off = _number(given.get("bf_interval"), -1) == -1
    return BackfillSettings(
        backfills=settings.word("schedulertype", BACKFILL) == BACKFILL and not switched_off,
        **numbers,
    )


def refused_parameters(settings: Keys) -> Iterator[str]:
    """A sentence on each parameter with a value that Slurm refuses."""
    given = parameters_of(settings)
    for each in slurm_keys()["backfill"].values():
        key = each["parameter"]
        if key in given and _number(given[key], each["least"]) is None and given[key] != "-1":
            yield f"SchedulerParameters {key}={given[key]}: Slurm refuses it and uses the default."


def _number(text: str | None, least: int) -> int | None:
    found = _INTEGER.match(text or "")
    return int(found[1]) if found and int(found[1]) >= least else None


def weights_of_priorities(settings: Keys) -> PriorityWeights:
    """PriorityWeight* and related settings; all 0 if jobs start in order of submission."""
    if settings.word("prioritytype", MULTIFACTOR) != MULTIFACTOR:
        return PriorityWeights()
    default = PriorityWeights()
    tres = "priorityweighttres"
    period = settings.seconds("prioritycalcperiod", default.period)
    if not 0.0 < period < math.inf:
        raise settings["prioritycalcperiod"].fault("Slurm refuses this period; write minutes")
    points: dict[str, Any] = {
        name: float(settings.number(key, 0)) for name, key in slurm_keys()["weights"].items()
    }
    return PriorityWeights(
        **points,
        resources=weights_of(settings[tres]) if settings.word(tres) else {},
        # with 0 s a job has its full age at once
        highest_age=max(settings.seconds("prioritymaxage", default.highest_age), 1.0),
        half_life=settings.seconds("prioritydecayhalflife", default.half_life) or math.inf,
        dampening=float(max(settings.number("fairsharedampeningfactor", 0), 1)),
        counts_ends=enforces_limits(settings),
        reset_period=settings.word("priorityusageresetperiod", default.reset_period).upper(),
        period=period,
        favours_small=settings.truth("priorityfavorsmall"),
        flags=frozenset(word.upper() for word in settings.words("priorityflags")),
    )


def allocates_whole_nodes(settings: Keys) -> bool:
    """Whether SelectType gives jobs only whole nodes."""
    return settings.word("selecttype") == LINEAR


def selected(settings: Keys) -> list[str]:
    """Words of SelectTypeParameters in lower case; by default CR_Core_Memory of cons_tres."""
    default = "" if allocates_whole_nodes(settings) else "cr_core_memory"
    return [word.strip() for word in settings.word("selecttypeparameters", default).split(",")]


def licences_of(settings: Keys) -> dict[str, float]:
    """Licences=NAME[:COUNT],...; the default count is 1."""
    found: dict[str, float] = {}
    for word in settings.words("licenses"):
        name, _, count = word.partition(":")
        if not name or not (count or "1").isascii() or not (count or "1").isdigit():
            raise settings["licenses"].fault(
                f"{word} is no NAME:COUNT; write one such as matlab:10"
            )
        found[name] = found.get(name, 0.0) + float(count or 1)
    return found


#: Values equal to the default of any key.
_NEUTRAL = NOTHING | {"0", "-1", "no", "off"}


def not_modelled(settings: Keys) -> Iterator[str]:
    """A sentence on each key that would change starts but is not modelled."""
    tables = slurm_keys()
    keys, known = tables["keys"], tuple(tables["without_effect"]["keys_that_begin"])
    for key, value in settings.items():
        text = value.text.lower()
        counts = text not in _NEUTRAL and text not in tables["neutral"].get(key, ())
        if key == "slurmctldparameters":
            counts = "cloud" in text or "power" in text
        if key in keys and counts:
            yield f"{value.said}: {keys[key]}."
        elif key not in keys and not key.startswith(known):
            yield f"{value.said}: not known here, so it has no effect."
    yield from _parameters(settings)
    for key, table in (("SelectTypeParameters", "selection"), ("PriorityFlags", "flags")):
        whys = {word.lower(): why for word, why in tables[table].items()}
        for word in settings.words(key.lower()):
            if word.lower() in whys:
                yield f"{key} {word}: {whys[word.lower()]}."


def _parameters(settings: Keys) -> Iterator[str]:
    whys = slurm_keys()["parameters"]
    known = {*whys, *slurm_keys()["without_effect"]["parameters"]}
    known.update(each["parameter"] for each in slurm_keys()["backfill"].values())
    for name, number in parameters_of(settings).items():
        word = f"SchedulerParameters {name}" + (f"={number}" if number else "")
        if name in whys and number != "0":
            yield f"{word}: {whys[name]}."
        elif name not in known:
            yield f"{word}: not known here, so it has no effect."
