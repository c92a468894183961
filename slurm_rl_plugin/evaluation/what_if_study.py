"""A cluster with the jobs of a log, and what changes of it would do to their users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import ReadJobs, configured_classifier
from slurm_rl_plugin.evaluation.site_replay import NOT_KNOWN_ON_NODES, Bar
from slurm_rl_plugin.evaluation.study import absent, as_json, machine_entry
from slurm_rl_plugin.learning.evaluation.schedule_waits import resource_figures
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.machine_files.reader import DescribedCluster, plain_cluster
from slurm_rl_plugin.measure.intervals import INCONCLUSIVE, Blocks
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import (
    OF_CLUSTER,
    PAST_WORK,
    PreparedLog,
    accounts_with_jobs,
    shares_at,
)
from slurm_rl_plugin.utility.fairness import Service
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import misdelivered_figures, service_of_account
from slurm_rl_plugin.what_if.effects import (
    ALL,
    Effect,
    GroupEffects,
    Knowledge,
    effects_of,
    knowledge_of,
    services,
)
from slurm_rl_plugin.what_if.replay import ReplayedPair, left_out, replay_variants
from slurm_rl_plugin.what_if.variant import AS_IT_IS, ClusterVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAndJobs:
    """What every question about a cluster is asked of."""

    read: ReadJobs
    jobs: JobLog  #: of it, in the order in which they came
    cluster: DescribedCluster
    settings: SimulationSettings  #: how slurmctld and, in variants with our hook, the daemon act
    #: of accounts, if neither options nor the cluster give them
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def with_shares(self, known: float) -> ClusterAndJobs:
        """The same with shares by the work of the first part, `known`, of the log's time."""
        submit = self.jobs.submit
        first, last = (submit.min(), submit.max()) if len(submit) else (0.0, 0.0)
        early = self.jobs.select(submit <= first + known * (last - first))
        machine = self.cluster.machine
        prepared = self.read.placed(early, machine, self.read.shares_on(machine))
        shares = dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True))
        return replace(self, shares=shares)

    def placed(self, jobs: JobLog, machine: Machine) -> PreparedLog:
        """Jobs on a machine, with classes that are known at submission and the same shares always.

        Shares are those that options give, else of the machine's accounts, else of the work that
        the log's accounts did on the cluster as it is.
        """
        given = self.read.shares_on(machine)
        known = given or shares_at(machine, accounts_with_jobs(jobs))
        prepared = self.read.placed(jobs, machine, known or self.shares)
        if given is None:
            prepared = replace(prepared, shares_from=OF_CLUSTER if known else PAST_WORK)
        return class_known_at_submission(prepared, configured_classifier(self.read.options.config))

    def replayed(
        self,
        variants: list[ClusterVariant],
        bar: Bar,
        *,
        counted_from: float | None = None,
        checkpoint: Path | None = None,
    ) -> list[ReplayedPair]:
        """The jobs under the cluster as it is and under each variant; see `replay_variants`."""
        base = ClusterVariant(name=AS_IT_IS, machine=self.cluster.machine)
        with bar("replaying", 1 + len(variants)) as progress:
            return replay_variants(
                self.jobs,
                base,
                variants,
                self.placed,
                self.settings,
                progress,
                counted_from=counted_from,
                checkpoint=checkpoint,
            )


def without_nodes(read: ReadJobs) -> tuple[DescribedCluster, JobLog, str]:
    """A cluster of processors for jobs that ask for nothing else, the jobs, and what to say of it.

    Raises:
        ConfigurationError: the jobs ask for nodes, memory or GPUs, which such a cluster lacks; of
            memory in SWF the amount is unknown.
    """
    asked = None if read.jobs.kind == "swf" else read.jobs.requests
    if asked is not None and (asked.total[:, 1:].any() or (asked.nodes > 1).any()):
        raise ConfigurationError(
            f"{read.name}: its jobs ask for nodes, memory or GPUs: give --cluster slurm.conf, or "
            "--cluster live on a host of the cluster."
        )
    processors = read.on(None).prepared.capacity
    everything = np.zeros(len(read.jobs), dtype=np.int64)
    note = (
        f"No --cluster is given: {processors} nodes of one CPU in one partition, with the weights "
        "of the rule multifactor."
    )
    jobs = replace(read.jobs, partitions=("",), partition=everything)
    return plain_cluster(processors), jobs, note


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOfAccount:
    """The share of an account; service before and after, and that over its entitlement."""

    share: float
    delivered: list[float]
    entitled: list[float]
    ratio: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOfAll:
    """Who got what, before and after; the first three as `misdelivered_figures` has them."""

    fortnight: list[float | None]
    quantile05: list[float | None]
    kept95: list[float | None]
    accounts: dict[str, ServiceOfAccount]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantStudy:
    """What one change does."""

    counted_jobs: int
    inconclusive: str | None  #: why no verdict can be given; None where one can
    sentences: list[str]  #: what of the variant is not simulated, and which jobs differ
    figures: dict[str, Effect]
    groups: dict[str, dict[str, GroupEffects]]  #: what jobs are grouped by -> group -> its effects
    service: ServiceOfAll
    #: resource -> its capacity and the part in use, before and after
    resources: dict[str, dict[str, list[float | None]]]

    @classmethod
    def of(cls, pair: ReplayedPair, blocks: Blocks, knowledge: Knowledge) -> VariantStudy:
        """Compare a variant with the cluster as it is."""

        def inconclusive(effects: GroupEffects) -> GroupEffects:
            judged = effects.figures.items()
            return replace(
                effects,
                figures={name: replace(each, verdict=INCONCLUSIVE) for name, each in judged},
            )

        served, why = services(pair), knowledge.why_inconclusive
        effects = effects_of(pair, blocks, served)
        if why is not None:
            effects = {
                by: {name: inconclusive(each) for name, each in groups.items()}
                for by, groups in effects.items()
            }
        return cls(
            counted_jobs=len(pair.counted),
            inconclusive=why,
            sentences=[*pair.variant.sentences, *left_out(pair)],
            figures=effects.pop(ALL)[ALL].figures,
            groups=effects,
            service=_service(pair, served),
            resources=_resources(pair),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfStudy:
    """How well a cluster is known, and the effects of every variant."""

    log: dict[str, Any]
    cluster: dict[str, Any]  #: as `machine_entry` has it
    known: Knowledge
    not_known: tuple[str, ...]
    intervals: dict[str, Any]  #: the stretches that are drawn for intervals
    variants: dict[str, VariantStudy]
    notes: tuple[str, ...]
    figures: list[str] | None = absent()

    @classmethod
    def of(cls, found: ClusterAndJobs, pairs: Sequence[ReplayedPair], seed: int) -> WhatIfStudy:
        """Compare."""
        read, base = found.read, pairs[0].base
        widest = max(pairs, key=lambda each: len(each.counted))
        knowledge, blocks = knowledge_of(base, widest.counted), blocks_of(widest, seed)
        return cls(
            log={
                "name": read.name,
                "sha256": read.report.checksum,
                "jobs": len(base.prepared.log),
                "counted_jobs": len(widest.counted),
                "dropped": {**read.report.dropped, **base.prepared.dropped},
                "class_rule": base.prepared.class_rule,
                "shares_from": base.prepared.shares_from,
            },
            cluster=machine_entry(base.variant.machine),
            known=knowledge,
            not_known=NOT_KNOWN_ON_NODES,
            intervals={"stretches": blocks.count, "unit": blocks.unit, "draws": len(blocks.drawn)},
            variants={
                each.variant.variant.name: VariantStudy.of(each, blocks_of(each, seed), knowledge)
                for each in pairs
            },
            notes=found.notes,
        )

    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        known = {**asdict(self.known), "sentence": self.known.sentence}
        return {**as_json(self), "known": known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a search found, in addition to the effects of each order."""

    goals: RewardWeights
    search: dict[str, Any]  #: how many settings were tried, and what they gained on the past
    words: dict[str, str]  #: order -> the change that makes it
    settings: dict[str, str]  #: key of slurm.conf -> value that was found
    #: order -> what it gains on the rest, with interval and verdict
    gain: dict[str, dict[str, Any]]
    chosen: dict[str, Any]  #: which order the past speaks for, and the learned order's gain over it
    #: for slurm.conf or our own configuration; none where no gain is beyond chance
    lines: list[str]
    written: str | None = absent()  #: name of the file with the lines


def blocks_of(pair: ReplayedPair, seed: int) -> Blocks:
    """Stretches of the counted jobs, the same draws for all pairs of the same jobs."""
    return Blocks.over(pair.submit, np.random.default_rng(seed))


def _service(pair: ReplayedPair, both: tuple[Service, Service]) -> ServiceOfAll:
    sides = pair.base.prepared, pair.variant.prepared
    accounts = {}
    for place, name in enumerate(sides[0].accounts):
        if name not in sides[1].accounts:
            continue
        got = [
            service_of_account(each, side.accounts.index(name))
            for each, side in zip(both, sides, strict=True)
        ]
        accounts[name] = ServiceOfAccount(
            share=float(sides[0].shares[place]),
            delivered=[each["delivered"] for each in got],
            entitled=[each["entitled"] for each in got],
            ratio=[each["ratio"] for each in got],
        )
    figures = [misdelivered_figures(each) for each in both]
    return ServiceOfAll(
        fortnight=[each["fortnight"] for each in figures],
        quantile05=[each["quantile05"] for each in figures],
        kept95=[each["kept95"] for each in figures],
        accounts=accounts,
    )


def _resources(pair: ReplayedPair) -> dict[str, dict[str, list[float | None]]]:
    """From the first submission to the last end."""
    before, after = (
        resource_figures(each.prepared, each.schedule, each.variant.machine)
        for each in (pair.base, pair.variant)
    )
    return {
        name: {
            key: [before.get(name, {}).get(key), each[key]] for key in ("capacity", "utilization")
        }
        for name, each in after.items()
    }
