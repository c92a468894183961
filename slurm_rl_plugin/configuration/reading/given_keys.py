"""What the sources give, key by key: a later one wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slurm_rl_plugin.configuration.keys.key import Keys
from slurm_rl_plugin.configuration.keys.names import NamedKey, names_of

#: Origin of a value that no source gives.
DEFAULT = "default"


class Given(NamedTuple):
    """A value and where it comes from: `default`, `file:line`, a variable, or a flag."""

    value: Any
    origin: str


@dataclass(slots=True)
class GivenKeys:
    """Collects the values of one source after another, with their faults.

    Attributes:
        keys: all that there are.
        faults: one sentence each.
        warnings: one sentence for each former or removed name in use.
        faulty: (section, name) of keys with a fault anywhere.
    """

    keys: Keys
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faulty: set[tuple[str, str]] = field(default_factory=set)
    _given: dict[tuple[str, str], Given] = field(default_factory=dict)

    @property
    def names(self) -> dict[tuple[str, str], NamedKey]:
        """All names of keys, those of now and former ones."""
        return names_of(self.keys)

    def give(self, named: NamedKey, value: Any, origin: str) -> None:
        """Take a value over all that were given before, or its fault."""
        place = (named.section, named.name)
        if named.former:
            self.warnings.append(f"{origin}: {named.former} is now called {named}: rename it.")
        fault = named.key.fault(value)
        if fault is None:
            self._given[place] = Given(value, origin)
        else:
            self.faulty.add(place)
            self.faults.append(f"{origin}: {named.former or named} {fault}.")

    def value(self, section: str, name: str) -> Given:
        """The value that was given last, or the key's default, with where it comes from."""
        default = Given(self.keys[section][name].default, DEFAULT)
        return self._given.get((section, name), default)

    def all_values(self) -> dict[str, dict[str, Given]]:
        """Section -> key -> what is in force."""
        return {
            section: {name: self.value(section, name) for name in keys}
            for section, keys in self.keys.items()
        }
