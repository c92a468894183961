"""Names of keys: those of now, former ones, and the nearest to one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from slurm_rl_plugin.configuration.keys.key import Key, Keys

#: What every name in the environment begins with.
ENVIRONMENT_PREFIX = "SLURM_RL_"


class NamedKey(NamedTuple):
    """A key with its place; `former` is the old name under which it was found, or ""."""

    section: str
    name: str
    key: Key
    former: str = ""

    def __str__(self) -> str:
        return f"[{self.section}] {self.name}"


def names_of(keys: Keys) -> dict[tuple[str, str], NamedKey]:
    """Section and name, of now or former, -> the key of now."""
    found = {}
    for section, definitions in keys.items():
        for name, key in definitions.items():
            for former in key.former_names:
                old_section, _, old_name = former.partition(".")
                old = (old_section, old_name)
                found[old] = NamedKey(section, name, key, f"[{old_section}] {old_name}")
            found[section, name] = NamedKey(section, name, key)
    return found


def environment_name(section: str, name: str) -> str:
    """The name of a key in the environment: `SLURM_RL_HOOK_MODE`."""
    return f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown name."""
    candidates = list(known)
    near = get_close_matches(name, candidates, n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f", give one of {', '.join(candidates)}." if candidates else "."
