"""The file of the model in service: where it is, and how another one takes its place."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.daemon.lock import reload_daemon
from slurm_rl_plugin.policies.protection import protection_named
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.whole_file import replacing

#: What lies beside a model: its manifest and its card; the model itself last.
_ENDINGS = (".json", ".md", ".onnx")


def model_file(configuration: Configuration) -> Path:
    """The file that [policy] model names.

    Raises:
        ConfigurationError: it names a rule or a model of the package, which no other can replace,
            or its folder is not writable for this user.
    """
    model = configuration.sections.policy.model
    path = Path(protection_named(model)[1])
    if named_policy(model) is not None:
        raise ConfigurationError(
            f"[policy] model is {model}, which is the package's: to renew it give the site a file "
            "of its own that the daemon's user may replace, as "
            "/var/lib/slurm-rl/models/present.onnx, and reload the daemon (docs/drift.md)."
        )
    if not os.access(path.parent, os.W_OK):
        raise ConfigurationError(
            f"[policy] model {path}: its folder is not writable for the daemon's user, who would "
            "put another model there: move it, as to /var/lib/slurm-rl/models."
        )
    return path


def adopt(configuration: Configuration, candidate: Path, present: Path, now: float) -> Path:
    """Put a candidate in the place of the model in service, and let the daemon read it.

    May be called again after it was cut short: what was in service is kept once.

    Args:
        configuration: of the site.
        candidate: the file of the model that was on trial.
        present: that of the model in service.
        now: seconds since the epoch.

    Returns:
        Where the one before is kept.

    Raises:
        ConfigurationError: a file cannot be read or written.
    """
    day = datetime.fromtimestamp(now).date().isoformat()
    kept = present.with_name(f"{present.stem}.until-{day}.onnx")
    try:
        if present.read_bytes() != candidate.read_bytes():
            for ending in _ENDINGS:
                _copy(present.with_suffix(ending), kept.with_suffix(ending))
        for ending in _ENDINGS:
            _copy(candidate.with_suffix(ending), present.with_suffix(ending))
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or present} cannot be put in place ({error.strerror}): the model "
            "before it is in service."
        ) from None
    reload_daemon(Path(configuration.sections.hook.state_file))
    return kept


def _copy(source: Path, target: Path) -> None:
    """Whole or not at all; a manifest or card that is missing is no fault.

    Raises:
        OSError: it cannot be read or written.
    """
    if source.suffix != ".onnx" and not source.exists():
        return
    with replacing(target) as beside:
        shutil.copyfile(source, beside)
