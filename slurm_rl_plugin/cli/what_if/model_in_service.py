"""The file of the model in service: where it is, and how another one takes its place."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from glob import escape
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.policies.protection import protection_named
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.whole_file import write_whole

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


def named_as(configuration: Configuration, file: Path) -> str:
    """Another file as [policy] model would name it, with the protection that stands there."""
    model = configuration.sections.policy.model
    return model.removesuffix(protection_named(model)[1]) + str(file.resolve())


def adopt(declared: Declaration, present: Path, now: float) -> Path:
    """Put a candidate that won in the place of the model in service.

    May be called again after it was cut short: what was in service is kept once.

    Args:
        declared: the experiment that it won.
        present: the file of the model in service.
        now: seconds since the epoch.

    Returns:
        Where the one before is kept.

    Raises:
        ConfigurationError: a file is not the one that was declared, or cannot be read or written.
    """
    candidate = Path(protection_named(declared.candidate)[1])
    try:
        content, before = candidate.read_bytes(), present.read_bytes()
        if _sha256(content) != declared.model_sha256:
            raise _another(candidate, "on trial")
        if _sha256(before) not in (declared.champion_sha256, declared.model_sha256):
            raise _another(present, "in service")
        kept = _kept(present, declared.champion_sha256)
        if kept is None:
            day = datetime.fromtimestamp(now).date().isoformat()
            kept = present.with_name(
                f"{present.stem}.until-{day}-{declared.champion_sha256[:8]}.onnx"
            )
            _put(present, kept, before)
        _put(candidate, present, content)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or present} cannot be put in place ({error.strerror}): the model "
            "before it is in service."
        ) from None
    return kept


def _another(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is not the file that was {what} in the experiment: nothing is put in place. Put "
        "the experiment away with `slurm-rl experiment stop --as-configured`."
    )


def _kept(present: Path, sha256: str) -> Path | None:
    """Where the model before lies already."""
    found = present.parent.glob(f"{escape(present.stem)}.until-*-{sha256[:8]}.onnx")
    return next((each for each in found if _sha256(each.read_bytes()) == sha256), None)


def _put(source: Path, target: Path, content: bytes) -> None:
    """Manifest and card first, then the model; whole or not at all.

    Raises:
        OSError: one cannot be read or written.
    """
    for ending in _ENDINGS[:-1]:
        beside = target.with_suffix(ending)
        try:
            write_whole(beside, source.with_suffix(ending).read_bytes())
        except FileNotFoundError:
            beside.unlink(missing_ok=True)  # none is better than that of another model
    write_whole(target, content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
