"""Names of keys: current, former and removed ones, and the nearest to an unknown one."""

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


#: `section` or `section.key` -> what follows its name in a warning: what it was, that it is gone,
#: and what to do.
REMOVED: dict[str, str] = {
    "hook.class_defaults_file": "named the table from which job_submit.lua gave new jobs a factor; "
    "it is gone: new jobs get their factor in the next cycle. Remove this line, and take our "
    "job_submit.lua out of JobSubmitPlugins in slurm.conf before you delete the script.",
    "plan": "gave the scheduler predicted run times; it is gone, because jobs waited just as long "
    "with it. Remove the section.",
}


def removal_of(section: str, name: str = "") -> str | None:
    """Why a section or a key no longer exists; None if no release had it."""
    return REMOVED.get(section) or REMOVED.get(f"{section}.{name}")
