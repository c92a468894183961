"""The site's configuration: files, environment and flags become typed objects.

Any fault raises ConfigurationError, which lists all faults, one line each.
"""

from slurm_rl_plugin.configuration.configuration import (
    Configuration,
    changed_start_keys,
    with_start_values,
)
from slurm_rl_plugin.configuration.key import DEFAULT_PATH, Key
from slurm_rl_plugin.configuration.reading import (
    Flag,
    KnownConfiguration,
    known_configuration,
    read_configuration,
    rollback_values,
)
from slurm_rl_plugin.configuration.sections import KEYS

__all__ = [
    "DEFAULT_PATH",
    "KEYS",
    "Configuration",
    "Flag",
    "Key",
    "KnownConfiguration",
    "changed_start_keys",
    "known_configuration",
    "read_configuration",
    "rollback_values",
    "with_start_values",
]
