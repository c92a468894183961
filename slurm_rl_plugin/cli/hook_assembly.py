"""Builds the hook from a configuration: adapters by name, lazily; the model, or its stand-in."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.batch_systems.pbs_adapter_choice import choose_batch_system
from slurm_rl_plugin.batch_systems.pbs_site import PbsSite
from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.batch_systems.slurm_adapter_choice import PYSLURM, choose_adapter
from slurm_rl_plugin.batch_systems.slurm_batch_limit import LimitSettings
from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_site import SlurmSite
from slurm_rl_plugin.cli.shipped_files import shipped_folder
from slurm_rl_plugin.configuration import SHIPPED_MODELS, Configuration
from slurm_rl_plugin.configuration.reserve_keys import LICENSES, MAX_RUN_RES, OFF, QOS
from slurm_rl_plugin.errors import ConfigurationError, PolicyError
from slurm_rl_plugin.hook.audit_log import AuditLog
from slurm_rl_plugin.hook.batch_limit import BatchLimit
from slurm_rl_plugin.hook.class_defaults import ClassDefaults
from slurm_rl_plugin.hook.cycle import Cycle
from slurm_rl_plugin.hook.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.hook.reserve_rail import ReserveRail
from slurm_rl_plugin.hook.state_file import StateFile
from slurm_rl_plugin.policies.ordering_rules import is_live_rule, rule_policy
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.unavailable import UnavailablePolicy

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.slurm import Slurm
    from slurm_rl_plugin.batch_systems.slurm_commands import SlurmCommands

logger = logging.getLogger(__name__)

#: Seconds for which the table of class defaults is good beyond three cycles.
_DEFAULTS_LIFE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """A policy and what metrics say of its model.

    Attributes:
        policy: who scores jobs.
        sha256: of the model; "" for a rule.
        labels: of the metric that describes the model.
        learns_from_runs: whether it wants to know the runs of the past.
    """

    policy: Policy
    sha256: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    learns_from_runs: bool = False


def model_path(model: str) -> Path:
    """Where a model is: one of SHIPPED_MODELS, or a path."""
    if model not in SHIPPED_MODELS:
        return Path(model)
    return shipped_folder("policy_models") / f"{model}.onnx"


def check_model_file(model: str) -> None:
    """Refuse a model that is not there: no daemon should start on a slip in its path.

    A file that is there and broken is another matter: it may break while the site relies on the
    daemon, which then falls back.

    Raises:
        ConfigurationError: the file is missing or may not be read by this user.
    """
    if is_live_rule(model):
        return
    path = model_path(model)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigurationError(
            f"model {path} cannot be read ({error.strerror}): give the path of a model, or the "
            "name of a rule, in [policy] model."
        ) from None


def load_policy(model: str) -> LoadedPolicy:
    """A rule by its name, or a model by its path.

    Raises:
        PolicyError: the model cannot be used.
    """
    if is_live_rule(model):
        return LoadedPolicy(policy=rule_policy(model), labels={"name": model})
    network = load_q_network(model_path(model))
    card = network.card
    labels = {
        "name": network.name,
        "sha256": card.sha256,
        "schema": card.metadata.get("schema_name", ""),
        "schema_digest": card.metadata.get("schema_digest", ""),
        "algorithm": card.metadata.get("algorithm", ""),
    }
    return LoadedPolicy(
        policy=network,
        sha256=card.sha256,
        labels=labels,
        learns_from_runs=network.prediction is not None,
    )


def load_policy_or_fall_back(model: str) -> LoadedPolicy:
    """As `load_policy`; a model that cannot be used refuses each decision, so FIFO takes over."""
    try:
        return load_policy(model)
    except PolicyError as error:
        logger.error("model=refused reason=%s", error)
        stand_in = UnavailablePolicy(name=Path(model).stem, reason=error)
        return LoadedPolicy(policy=stand_in, labels={"name": stand_in.name, "refused": "true"})


def build_batch_system(
    configuration: Configuration, calls: list[tuple[str, float]], *, learns_from_runs: bool = False
) -> BatchSystem:
    """The configured adapter.

    Args:
        configuration: of the site.
        calls: receives the duration of every command.
        learns_from_runs: the first snapshot is to report the runs of the past.

    Raises:
        ConfigurationError: the adapter cannot work here.
    """
    settings = configuration.values["batch_system"]
    choice = choose_batch_system(settings["adapter"], os.environ)
    logger.info("batch_system=%s because=%s", "pbs" if choice.pbs else "slurm", choice.because)
    if choice.pbs:
        return _pbs(configuration, calls, learns_from_runs)
    adapter = slurm_adapter(settings["adapter"], float(settings["timeout"]))
    state_file = Path(configuration.values["hook"]["state_file"])
    site = SlurmSite(
        shares=configuration.shares,
        interactive=configuration.classifier.is_interactive,
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        timeout=float(settings["timeout"]),
        on_call=lambda call, seconds: calls.append((call, seconds)),
        history_days=float(settings["history_days"]) if learns_from_runs else 0.0,
        host=socket.gethostname(),
        nice_file=nice_path(state_file),
        limit=_slurm_limit(configuration.values["reserve"]),
        limits_file=limits_path(state_file),
    )
    return adapter(site)


def _pbs(
    configuration: Configuration, calls: list[tuple[str, float]], learns_from_runs: bool
) -> BatchSystem:
    from slurm_rl_plugin.batch_systems.pbs import Pbs  # noqa: PLC0415 - chosen by name

    settings = configuration.values["batch_system"]
    state_file = Path(configuration.values["hook"]["state_file"])
    return Pbs(
        PbsSite(
            shares=configuration.shares,
            interactive=configuration.classifier.is_interactive,
            clock=time.time,  # noqa: TID251 - the composition root hands out the clock
            timeout=float(settings["timeout"]),
            environment=dict(os.environ),
            on_call=lambda call, seconds: calls.append((call, seconds)),
            heartbeat=heartbeat_path(state_file),
            history_days=float(settings["history_days"]) if learns_from_runs else 0.0,
            batch_queues=_pbs_batch_queues(configuration.values["reserve"]),
            limits_file=limits_path(state_file),
        )
    )


def _pbs_batch_queues(reserve: Mapping[str, Any]) -> tuple[str, ...]:
    """The queues that a limit on batch jobs is set on; none for another mechanism."""
    return tuple(reserve["queues"]) if reserve["mechanism"] == MAX_RUN_RES else ()


def _slurm_limit(reserve: Mapping[str, Any]) -> LimitSettings | None:
    """What carries the limit on batch jobs; None for none."""
    if reserve["mechanism"] == OFF:
        return None
    return LimitSettings(
        mechanism=reserve["mechanism"],
        qos=reserve["qos"],
        license=reserve["license"],
        reservation=reserve["reservation"],
    )


def heartbeat_path(state_file: Path) -> Path:
    """Where PBS's dead-man hook looks for our sign of life, beside the state file."""
    return state_file.with_name("heartbeat")


def limits_path(state_file: Path) -> Path:
    """Where the site's own limits on batch jobs are kept, beside the state file."""
    return state_file.with_name(state_file.name + ".limits")


def nice_path(state_file: Path) -> Path:
    """Where the users' nice values are kept, beside the state file."""
    return state_file.with_name(state_file.name + ".nice")


def slurm_adapter(wanted: str, timeout: float) -> type[SlurmCommands] | type[Slurm]:
    """The adapter for a configured name, and a line of the log that says why.

    Args:
        wanted: `auto`, or the name of one.
        timeout: seconds that Slurm may take to tell its release.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    commands = CommandRunner(environment=None, timeout=timeout, on_call=None)
    choice = choose_adapter(wanted, commands)
    logger.info("adapter=%s because=%s", choice.adapter, choice.because)
    if choice.adapter == PYSLURM:
        from slurm_rl_plugin.batch_systems.slurm import Slurm  # noqa: PLC0415 - chosen by name

        return Slurm
    from slurm_rl_plugin.batch_systems.slurm_commands import (  # noqa: PLC0415 - chosen by name
        SlurmCommands,
    )

    return SlurmCommands


def build_cycle(configuration: Configuration, loaded: LoadedPolicy) -> Cycle:
    """A cycle over the configured batch system."""
    calls: list[tuple[str, float]] = []
    hook, rails = configuration.values["hook"], configuration.values["guard_rails"]
    reserve = ReserveRail(configuration.reserve) if configuration.reserve else None
    return Cycle(
        batch_system=build_batch_system(
            configuration, calls, learns_from_runs=loaded.learns_from_runs
        ),
        policy=loaded.policy,
        model_sha256=loaded.sha256,
        settings=configuration.cycle_settings,
        guard_rails=default_guard_rails(configuration.starvation_bound, reserve),
        untouched=UntouchedJobs(
            accounts=tuple(rails["exempt_accounts"]),
            partitions=tuple(rails["exempt_partitions"]),
            qos=tuple(rails["exempt_qos"]),
        ),
        state=StateFile(Path(hook["state_file"])),
        audit=AuditLog(Path(hook["audit_file"]) if hook["audit_file"] else None),
        monotonic=time.monotonic,
        limit=BatchLimit(
            rail=reserve,
            file=limits_path(Path(hook["state_file"])),
            monotonic=time.monotonic,
        ),
        class_defaults=_class_defaults(configuration),
        calls=calls,
    )


def _class_defaults(configuration: Configuration) -> ClassDefaults:
    """Good for three cycles: one that is late is no reason to give new jobs nothing."""
    reserve, more = configuration.values["reserve"], {}
    if reserve["mechanism"] == QOS:
        more = {"batch_qos": reserve["qos"]}
    elif reserve["mechanism"] == LICENSES:
        more = {"batch_license": reserve["license"]}
    return ClassDefaults(
        path=class_defaults_path(configuration),
        rules=configuration.classifier.rules,
        life=3.0 * configuration.pace.longest + _DEFAULTS_LIFE,
        more=more,
    )


def class_defaults_path(configuration: Configuration) -> Path | None:
    """The table for job_submit.lua; None for none."""
    given = configuration.values["hook"]["class_defaults_file"]
    return Path(given) if given else None
