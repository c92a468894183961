"""Spans of time and resources as Slurm prints them, and as its commands take them.

Every function that reads a text raises ValueError where the text has another form.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from slurm_rl_plugin.domain.resources import CPUS, GPUS, LICENCE_PREFIX, MEMORY
from slurm_rl_plugin.units import DAY

_SPAN = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?P<clock>\d{1,9}(?::\d{1,5}){0,2})(?P<fraction>\.\d+)?", re.ASCII
)

_NO_LIMIT = frozenset({"", "0", "-1", "infinite", "unlimited"})
_GRES = "gres/"
_GPU = "gres/gpu"
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTPkmgtp]?)(?:i?[bB])?", re.ASCII)
#: Suffix of a size -> MiB, Slurm's unit of memory.
MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
#: Suffix of a count -> its factor.
_FACTOR = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}


def printed_seconds(text: str) -> float:
    """Seconds of what Slurm prints: `[days-][[hours:]minutes:]seconds[.fraction]`."""
    days, clock, fraction = _parts(text)
    return _seconds(days or "0", [*clock[:-1], clock[-1] + fraction])


def asked_seconds(text: str) -> float:
    """Seconds of `minutes[:seconds]`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`."""
    days, clock, fraction = _parts(text)
    if fraction:
        raise ValueError(text)
    missing = (3 if days else 2) - len(clock)
    return _seconds(days or "0", clock + ["0"] * missing)


def limit_seconds(text: str) -> float:
    """Seconds of a limit as `--time` takes it; NaN for none."""
    words = text.strip()
    return math.nan if words.lower() in _NO_LIMIT else asked_seconds(words)


def _parts(text: str) -> tuple[str, list[str], str]:
    """Days, what colons part, and a fraction with its point; "" for what is not there."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found["days"] or "", found["clock"].split(":"), found["fraction"] or ""


def _seconds(days: str, clock: Iterable[str]) -> float:
    seconds = 0.0
    for part in clock:
        seconds = 60.0 * seconds + float(part)
    return seconds + DAY * float(days)


def parse_memory(text: str) -> float:
    """MiB of `4000`, `4000M`, `3.5G`, `2T` or `512K`; MiB without a unit."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: give one such as 4000M or 16G")
    return float(found[1]) * MIB[found[2].upper()]


def counted(text: str) -> float | None:
    """A count with or without a suffix, such as 4 or 2K; None for anything else."""
    found = re.fullmatch(r"(\d{1,18})([kKmMgGtTpP]?)", text, re.ASCII)
    return float(int(found[1]) * _FACTOR[found[2].lower()]) if found else None


def parse_tres(text: str) -> dict[str, float]:
    """TRES as `sacct` and `scontrol` print them, by Slurm's names; memory in MiB.

    What is no `name=number` is left out.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name] = parse_memory(value)
        except ValueError:
            continue
    return found


def requested(tres: Mapping[str, float]) -> dict[str, float]:
    """What of some TRES a job asks nodes for, by the names of `domain.resources`.

    Billing, energy and other counts that are not resources are left out, and so are nodes.
    """
    found = {CPUS: tres.get("cpu", 0.0), MEMORY: tres.get("mem", 0.0)}
    found |= {
        name: amount
        for name, amount in tres.items()
        if name != _GPU and name.startswith((_GRES, LICENCE_PREFIX))
    }
    typed = sum(amount for name, amount in found.items() if name.startswith(_GPU + ":"))
    found[GPUS] = max(tres.get(_GPU, 0.0), typed)
    return {name: amount for name, amount in found.items() if amount}


def parse_gres(text: str) -> dict[str, float]:
    """TRES of what `--gres` takes: `gpu`, `gpu:2`, `gpu:a100:2`, several with commas.

    What is of a type counts under its plain name as well.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for part in text.split(",") if text and text != "none" else ():
        name, *rest = part.removeprefix(_GRES).removeprefix("gres:").split(":")
        given = counted(rest[-1]) if rest else None
        if not name or len(rest) > 2 or (len(rest) == 2 and given is None):
            raise ValueError(f"{part!r} is no generic resource: give one such as gpu:2")
        count = 1.0 if given is None else given
        kind = rest[0] if rest and (given is None or len(rest) == 2) else ""
        found[_GRES + name] += count
        if kind:
            found[f"{_GRES}{name}:{kind}"] += count
    return dict(found)


def parse_gpus(text: str) -> dict[str, float]:
    """TRES of what `--gpus` and `--gpus-per-...` take: `2`, `a100:2`, several with commas."""
    parts = text.split(",") if text else []
    return parse_gres(",".join(f"gpu:{part}" for part in parts))


def parse_task_tres(text: str) -> dict[str, float]:
    """TRES of what `--tres-per-task` takes: `cpu:4,gres/gpu:1,license/name:2`, also with `=`."""
    found: defaultdict[str, float] = defaultdict(float)
    for part in text.replace("=", ":").split(",") if text else ():
        if part.startswith(_GRES):
            asked = parse_gres(part)
        elif part.startswith(LICENCE_PREFIX):
            asked = parse_licences(part.removeprefix(LICENCE_PREFIX))
        else:
            name, _, number = part.partition(":")
            if name != "cpu" or (count := counted(number)) is None:
                raise ValueError(f"{part!r} is not known here: give one such as gres/gpu:1")
            asked = {name: count}
        for name, amount in asked.items():
            found[name] += amount
    return dict(found)


def parse_licences(text: str) -> dict[str, float]:
    """TRES of what `--licenses` takes: `name`, `name:2` or `name=2`, several with commas."""
    found: defaultdict[str, float] = defaultdict(float)
    for part in re.split("[,;|]", text) if text else ():
        name, _, number = part.replace("=", ":").partition(":")
        count = counted(number or "1")
        if not name or count is None:
            raise ValueError(f"{part!r} is no licence: give one such as name:2")
        found[LICENCE_PREFIX + name] += count
    return dict(found)
