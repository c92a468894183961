"""The utilities that a site publishes, by its own Q-network (2008, section II.C).

It needs only numpy and onnxruntime, so that a head node can publish.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.site import JOB_CLASSES, PublishedUtilities
from slurm_rl_plugin.errors import ModelSchemaMismatch, ScoreInvalid
from slurm_rl_plugin.features.columns import offered_job_features
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.units import FloatArray

#: Metadata of a model that scores the utility of one more job for the site, not only an order.
SCORES_ENTRY = "scores"
#: Value of that entry, and name of the training in `slurm-rl train --algorithm`.
SITE_UTILITY = "site-utility"
#: Default validity of a publication, seconds: five cycles of a minute.
VALID_FOR = 300.0


def utility_of(gain: FloatArray) -> FloatArray:
    """Utility in [0, 1] of a job's gain in the sum of (U + F)/2 over its site's jobs.

    A gain of 0 is 0.5. The formula is the same at every site, so utilities are in one unit.
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(gain, dtype=np.float64))))


def is_site_utility(policy: QNetworkPolicy) -> bool:
    """Whether a model's scores are utilities of a site, not an order of a queue."""
    scores = policy.card.metadata.get(SCORES_ENTRY)
    return scores == SITE_UTILITY and policy.schema.name == SITE.name


def check_site_utility(policy: QNetworkPolicy) -> None:
    """Raise ModelSchemaMismatch for a model whose scores are an order and no utilities."""
    if not is_site_utility(policy):
        raise ModelSchemaMismatch(
            f"model {policy.card.path} orders jobs and its scores are no utilities of the site: "
            "give one of `slurm-rl train --algorithm site-utility`."
        )


def published_utilities(
    policy: QNetworkPolicy,
    snapshot: QueueSnapshot,
    *,
    site: str,
    valid_for: float = VALID_FOR,
) -> PublishedUtilities:
    """What a site publishes in its present state, for `valid_for` seconds.

    Raises:
        ScoreInvalid: the model gives no finite number.
        PolicyError: its scores are an order and no utilities, or onnxruntime fails.
    """
    card = policy.card
    check_site_utility(policy)
    gain: FloatArray = np.zeros(0)
    if snapshot.accounts:
        interactive = [each == "interactive" for each in JOB_CLASSES]
        jobs = offered_job_features(snapshot, interactive, policy.estimates)
        gain = next(policy.scores_of(snapshot, None, [jobs]))
    if not np.isfinite(gain).all():
        raise ScoreInvalid(f"model {card.path} gives utilities that are no numbers: fit it again.")
    rows = utility_of(gain).reshape(len(JOB_CLASSES), len(snapshot.accounts))
    return PublishedUtilities(
        site=site,
        time=snapshot.now,
        valid_for=valid_for,
        model=card.sha256,
        utilities={
            kind: {name: round(each, 6) for name, each in zip(snapshot.accounts, row, strict=True)}
            for kind, row in zip(JOB_CLASSES, rows.tolist(), strict=True)
        },
    )
