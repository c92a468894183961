"""Resources as Slurm's configuration and database name them, and what they are called here."""

from __future__ import annotations

import re

from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.machine_files.values import NOTHING, Value

_NAMES = {"cpu": CPUS, "mem": MEMORY, "gres/gpu": GPUS, "node": "nodes"}
#: Slurm counts memory in MiB; a suffix says of what unit a weight or a limit is.
_IN_MIB = {"k": 1.0 / 1024, "m": 1.0, "": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?|\.\d{1,18})([kmgtp]?)b?", re.ASCII | re.IGNORECASE)


def resource_of(name: str) -> str:
    """The resource that Slurm calls so: `cpu`, `mem`, `gres/gpu:a100`, `license/matlab`."""
    words = name.strip()
    found = _NAMES.get(words.lower())
    if found is not None:
        return found
    kind, slash, rest = words.partition("/")
    return f"{kind.lower()}/{rest}" if slash else words.lower()


def weights_of(value: Value) -> dict[str, float]:
    """Weights by resource, such as `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; of memory for each MiB.

    Raises:
        ConfigurationError: an entry of another form.
    """
    return {
        name: amount / unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def limits_of(value: Value) -> dict[str, float]:
    """Amounts by resource, such as `cpu=100,mem=1T,gres/gpu=4`; memory in MiB.

    Raises:
        ConfigurationError: an entry of another form.
    """
    return {
        name: amount * unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def _amounts(value: Value) -> list[tuple[str, float, float]]:
    """Resource, number, and MiB of its unit, of each entry; an entry of -1 is no limit."""
    entries = []
    for word in value.words:
        name, _, amount = word.partition("=")
        found = _AMOUNT.fullmatch(amount.strip())
        if found is not None:
            unit = _IN_MIB[found[2].lower()]
            entries.append((resource_of(name), float(found[1]), unit))
        elif amount.strip() != "-1" and word.lower() not in NOTHING:
            raise value.fault(f"{word} is no RESOURCE=NUMBER; write such as cpu=1,mem=2G")
    return entries
