"""Builds the hook of a configured site: the model, or its stand-in, and the cycle."""

from __future__ import annotations

import logging
import site
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration, rollback_values
from slurm_rl_plugin.errors import ConfigurationError, PolicyError
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.outstanding import limits_path
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, ReserveRail
from slurm_rl_plugin.policies.port import Policy, UnavailablePolicy
from slurm_rl_plugin.policies.q_network import ModelCard, load_q_network, with_goals
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS, named_policy, unknown_policy
from slurm_rl_plugin.services.configured_site import build_batch_system
from slurm_rl_plugin.services.model_trial import try_out
from slurm_rl_plugin.whole_file import plain_file

logger = logging.getLogger(__name__)

#: Where pip puts data: an environment, a distribution's own folder, or the user's home.
_PREFIXES = (sys.prefix, sysconfig.get_path("data"), site.getuserbase())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """A policy and what metrics say of its model."""

    policy: Policy  #: who scores jobs
    sha256: str = ""  #: of the model; "" for a rule
    labels: dict[str, str] = field(default_factory=dict)  #: of the metric that describes the model
    card: ModelCard | None = None  #: of the model; None for a rule
    learns_from_runs: bool = False  #: whether it wants to know the runs of the past


def model_path(model: str) -> Path:
    """Where a model is: one of SHIPPED_MODELS, or a path."""
    if model not in SHIPPED_MODELS:
        return Path(model)
    return shipped_folder("policy_models") / f"{model}.onnx"


def check_model_file(model: str) -> None:
    """Refuse a model that is not there: no daemon should start on a slip in its name or path.

    A file that is there and broken is another matter: it may break while the site relies on the
    daemon, which then falls back.
    """
    named, path = named_policy(model), model_path(model)
    if named is not None and named.is_rule:
        named.live()
        return
    try:
        with plain_file(path):
            pass
    except OSError as error:
        if named is None and path.name == model and path.suffix != ".onnx":
            raise unknown_policy(model, live=True) from None
        raise ConfigurationError(
            f"model {path} cannot be read ({error.strerror}): give the path of a model, or the "
            "name of a rule, in [policy] model."
        ) from None


def load_policy(model: str) -> LoadedPolicy:
    """A rule by its name, or a model by its path."""
    named = named_policy(model)
    if named is not None and named.is_rule:
        return LoadedPolicy(policy=named.live(), labels={"name": model})
    if model not in SHIPPED_MODELS:
        try_out(model_path(model))
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
        card=card,
        learns_from_runs=network.knows_past,
    )


def load_policy_or_fall_back(model: str) -> LoadedPolicy:
    """As `load_policy`; a model that cannot be used refuses each decision, so FIFO takes over."""
    try:
        return load_policy(model)
    except PolicyError as error:
        logger.error("model=refused reason=%s", error)
        stand_in = UnavailablePolicy(name=Path(model).stem, reason=error)
        return LoadedPolicy(policy=stand_in, labels={"name": stand_in.name, "refused": "true"})


def build_cycle(configuration: Configuration, loaded: LoadedPolicy) -> Cycle:
    """A cycle over the configured batch system."""
    calls: list[tuple[str, float]] = []
    hook = configuration.sections.hook
    reserve = ReserveRail(configuration.reserve) if configuration.reserve else None
    rails = configuration.sections.guard_rails
    untouched = UntouchedJobs(
        accounts=tuple(rails.exempt_accounts),
        partitions=tuple(rails.exempt_partitions),
        qos=tuple(rails.exempt_qos),
    )
    return Cycle(
        batch_system=build_batch_system(
            configuration, calls, learns_from_runs=loaded.learns_from_runs
        ),
        policy=with_goals(loaded.policy, configuration.goals),
        model_sha256=loaded.sha256,
        settings=configuration.cycle_settings,
        guard_rails=default_guard_rails(configuration.starvation_bound, reserve),
        untouched=untouched,
        state=StateFile(Path(hook.state_file), rollback_values(configuration)),
        audit=AuditLog(Path(hook.audit_file) if hook.audit_file else None),
        monotonic=time.monotonic,
        limit=BatchLimit(
            rail=reserve, path=limits_path(Path(hook.state_file)), monotonic=time.monotonic
        ),
        calls=calls,
    )


def shipped_folder(name: str) -> Path:
    """A folder of the source tree, or the one that an installation made of its last part."""
    in_tree = Path(__file__).resolve().parents[2] / name
    installed = [Path(each) / "share" / "slurm-rl" / Path(name).name for each in _PREFIXES]
    return next((each for each in (in_tree, *installed) if each.is_dir()), installed[0])
