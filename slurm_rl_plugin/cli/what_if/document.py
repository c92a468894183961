"""The JSON of `what-if`: how well the cluster is known, and the effects of every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.evaluate.study.nodes import machine_entry
from slurm_rl_plugin.cli.evaluate.study.site_replay import NOT_KNOWN_ON_NODES
from slurm_rl_plugin.cli.logs.named_log import ReadJobs
from slurm_rl_plugin.learning.evaluation.on_machine import resource_figures
from slurm_rl_plugin.utility.entitlement import Service
from slurm_rl_plugin.utility.intervals import INCONCLUSIVE
from slurm_rl_plugin.utility.summary import misdelivered_figures, service_of_account
from slurm_rl_plugin.what_if.blocks import Blocks
from slurm_rl_plugin.what_if.effects import ALL, GroupEffects, effects_of, services
from slurm_rl_plugin.what_if.knowledge import Knowledge, knowledge_of
from slurm_rl_plugin.what_if.replay import ReplayedPair, ReplayedVariant, left_out


def what_if_document(jobs: ReadJobs, pairs: Sequence[ReplayedPair], seed: int) -> dict[str, Any]:
    """Everything that `what-if` prints.

    Args:
        jobs: of the log.
        pairs: the cluster as it is and each variant, at least one.
        seed: of the draws of stretches.
    """
    base, widest = pairs[0].base, max(pairs, key=lambda each: len(each.counted))
    knowledge = knowledge_of(base, widest.counted)
    blocks = blocks_of(widest, seed)
    return {
        "log": {
            "name": jobs.name,
            "sha256": jobs.report.checksum,
            "jobs": len(base.prepared.log),
            "counted_jobs": len(widest.counted),
            "dropped": {**jobs.report.dropped, **base.prepared.dropped},
            "class_rule": base.prepared.class_rule,
            "shares_from": base.prepared.shares_from,
        },
        "cluster": machine_entry(base.variant.machine),
        "known": {**asdict(knowledge), "sentence": knowledge.sentence},
        "not_known": list(NOT_KNOWN_ON_NODES),
        "intervals": {"stretches": blocks.count, "unit": blocks.unit, "draws": len(blocks.drawn)},
        "variants": {
            each.variant.variant.name: _variant_entry(each, blocks_of(each, seed), knowledge)
            for each in pairs
        },
    }


def blocks_of(pair: ReplayedPair, seed: int) -> Blocks:
    """Stretches of the counted jobs, drawn alike for all pairs of the same jobs."""
    return Blocks.over(pair.submit, np.random.default_rng(seed))


def _variant_entry(pair: ReplayedPair, blocks: Blocks, knowledge: Knowledge) -> dict[str, Any]:
    served, is_known = services(pair), knowledge.why_inconclusive is None
    effects = effects_of(pair, blocks, served)
    return {
        "counted_jobs": len(pair.counted),
        "inconclusive": knowledge.why_inconclusive,
        "sentences": [*pair.variant.sentences, *left_out(pair)],
        "figures": _entry(effects[ALL][ALL], is_known)["figures"],
        "groups": {
            by: {name: _entry(each, is_known) for name, each in groups.items()}
            for by, groups in effects.items()
            if by != ALL
        },
        "service": _service(pair, served),
        "resources": _resources(pair.base, pair.variant),
    }


def _entry(effects: GroupEffects, is_known: bool) -> dict[str, Any]:
    figures = {name: asdict(each) for name, each in effects.figures.items()}
    if not is_known:
        for each in figures.values():
            each["verdict"] = INCONCLUSIVE
    return {"jobs": effects.jobs, "figures": figures}


def _service(pair: ReplayedPair, both: tuple[Service, Service]) -> dict[str, Any]:
    """Who got what: of all accounts and of each, before and after."""
    sides = pair.base.prepared, pair.variant.prepared
    found: dict[str, Any] = {
        name: [misdelivered_figures(each)[name] for each in both]
        for name in ("fortnight", "quantile05", "kept95")
    }
    found["accounts"] = {
        name: {
            "share": float(sides[0].shares[place]),
            **{
                key: [
                    service_of_account(each, side.accounts.index(name))[key]
                    for each, side in zip(both, sides, strict=True)
                ]
                for key in ("delivered", "entitled", "ratio")
            },
        }
        for place, name in enumerate(sides[0].accounts)
        if name in sides[1].accounts
    }
    return found


def _resources(base: ReplayedVariant, variant: ReplayedVariant) -> dict[str, Mapping[str, Any]]:
    """Resource -> part in use before and after, from the first submission to the last end."""
    before, after = (
        resource_figures(each.prepared, each.schedule, each.variant.machine)
        for each in (base, variant)
    )
    return {
        name: {
            "capacity": [before.get(name, {}).get("capacity"), each["capacity"]],
            "utilization": [before.get(name, {}).get("utilization"), each["utilization"]],
        }
        for name, each in after.items()
    }
