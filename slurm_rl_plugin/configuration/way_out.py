"""What the way out uses where the configuration is broken: the state file tells it.

The daemon writes the sections that say how the cluster is reached and what may stand there into
its state file, so that a typo in the configuration leaves no factor standing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration.configuration import Configuration
from slurm_rl_plugin.configuration.files import ConfigurationFile, read_files, standing_lines
from slurm_rl_plugin.configuration.key import DEFAULT
from slurm_rl_plugin.configuration.reading import Flag, configuration_of_parts
from slurm_rl_plugin.errors import ConfigurationError

_LEFT = ("hook", "batch_system", "reserve", "metrics")
#: Paths that the daemon's account must not choose for root, who may run `disable`.
_NOT_LEFT = ("state_file", "disable_file", "audit_file")
_LOOKED_FOR = (*_LEFT, "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfiguration:
    """The configuration as far as it can be known, so that factors can be taken back with it.

    Attributes:
        configuration: with the default of each key that nobody tells.
        faults: of the configuration, one sentence each; none where it is whole.
        is_read: whether its files could be read; otherwise the state file told the rest.
    """

    configuration: Configuration
    faults: tuple[str, ...] = ()
    is_read: bool = True

    @property
    def state_file(self) -> Path:
        """Where the jobs that carry a factor of ours are remembered."""
        return Path(self.configuration.sections.hook.state_file)

    @property
    def beside_controllers(self) -> bool | None:
        """Whether a daemon runs beside each controller; None where a fault may hide it."""
        told = self.configuration.origins["hook"]["beside_controllers"] != DEFAULT
        if self.faults and not told:
            return None
        return bool(self.configuration.sections.hook.beside_controllers)


def way_out_of(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Section -> key -> value that a daemon leaves for those who have to clear up after it."""
    found = {section: dict(configuration.values[section]) for section in _LEFT}
    for name in _NOT_LEFT:
        del found["hook"][name]
    return found


def known_configuration(
    path: Path,
    *,
    environment: Mapping[str, str],
    flags: Sequence[Flag],
    left_behind: Callable[[Path], Mapping[str, Any]],
) -> KnownConfiguration:
    """Read a configuration, however broken it is.

    What is right by itself counts; the rest is what the daemon left behind. Where no file can be
    read, the lines that still stand say where the state file is, unless environment or flags do.

    `left_behind` reads `way_out_of` from a state file and gives {} where it tells nothing. A
    flag that gives no key raises ConfigurationError: a slip of the one who types breaks no file.
    """
    _, slips = configuration_of_parts((), {}, flags, complete=False)
    if slips:
        raise ConfigurationError(slips)
    faults: list[str] = []
    files = read_files(path, faults)
    is_read = not faults
    if not is_read:
        files = [ConfigurationFile(name=str(path), content=standing_lines(path, _LOOKED_FOR))]
    configuration, wrong = configuration_of_parts(files, environment, flags, complete=is_read)
    faults += wrong
    if not faults:
        return KnownConfiguration(configuration=configuration)
    state = str(configuration.sections.hook.state_file)
    left = ConfigurationFile(name=state, content=_own_part(left_behind(Path(state))))
    # what a file says goes before what was left, but not what was pieced together from its lines
    files = [left, *files] if is_read else [*files, left]
    configuration, _ = configuration_of_parts(files, environment, flags, complete=is_read)
    if not left.content:  # what the faulty lines said is not known
        configuration = replace(configuration, is_whole=False)
    return KnownConfiguration(configuration=configuration, faults=tuple(faults), is_read=is_read)


def _own_part(left: Mapping[str, Any]) -> dict[str, Any]:
    """What a daemon leaves; anybody may have written the rest."""
    found = {section: left[section] for section in _LEFT if isinstance(left.get(section), dict)}
    if "hook" in found:
        hook = found["hook"]
        found["hook"] = {name: hook[name] for name in hook if name not in _NOT_LEFT}
    return found
