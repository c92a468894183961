"""How the hook changes scores: starvation bound, site points, ages, bounded influence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.decision import INFLUENCE_TOLERANCE
from slurm_rl_plugin.simulator.kernel.class_limit import (
    rail_orders,
    rail_step,
    raise_steps,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import chosen_by_type, compiled
from slurm_rl_plugin.simulator.kernel.dispatch import best_first
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority, calculate, site_points
from slurm_rl_plugin.units import FloatArray, IntArray


class HookEffects(NamedTuple):
    """How the hook writes scores, and what it has written."""

    #: The priority to which bounded influence adds; a full order keeps its `standing`.
    site: SitePriority
    influence: float  #: points of the best place in the order; inf if the order alone counts
    refresh: float  #: seconds between two cycles of the hook; 0 scores at every decision
    starvation: float  #: seconds of waiting after which a job goes first of its account, or inf
    written_at: FloatArray  #: when scores were written last, shape [1]
    #: What was written for each job, NaN for nothing: its score at the last cycle, or its points
    #: under a bounded influence; shape [n].
    written: FloatArray
    #: When the factor of each job was written last: slurmctld then calculates its whole priority;
    #: seconds, shape [n].
    recalculated: FloatArray


class NoEffects(NamedTuple):
    """The hook does not change scores: the loop compiles nothing of it."""

    site: SitePriority  #: see HookEffects


def hook_effects(
    jobs: int,
    site: SitePriority,
    influence: float = np.inf,
    refresh: float = 0.0,
    starvation: float = np.inf,
    *,
    site_points: bool = False,
) -> HookEffects | NoEffects:
    """Effects for a workload of `jobs` jobs; see HookEffects for the rest.

    Args:
        influence: hours of age that the best place in the order adds.
        site_points: a full order keeps what partition, QOS and association add.
    """
    if not site_points:
        site = site._replace(standing=np.empty(0))
    points = np.inf if np.isinf(influence) else influence * site.points_an_hour
    if refresh == 0.0 and min(influence, starvation) == np.inf and len(site.standing) == 0:
        return NoEffects(site)
    remembered = jobs if refresh > 0.0 else 0
    return HookEffects(
        site=site,
        influence=float(points),
        refresh=float(refresh),
        starvation=float(starvation),
        written_at=np.array([-np.inf]),
        written=np.full(remembered, np.nan),
        recalculated=np.full(remembered, -np.inf),
    )


def _at_each_decision(_cluster: Cluster, _effects: NoEffects) -> bool:
    return True


@chosen_by_type("effects", {NoEffects: _at_each_decision})
def writes_now(cluster: Cluster, effects: HookEffects) -> bool:
    """Whether the hook writes scores at this decision."""
    return cluster.state[0].now - effects.written_at[0] >= effects.refresh


@compiled
def _keep_written(
    cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray
) -> None:
    """Between cycles jobs keep their written scores; a new job goes right behind the previous one.

    Scores may be ranks, so scores of two decisions cannot be compared.
    """
    count, anew = cluster.state[0].pending, writes_now(cluster, effects)
    if anew:
        effects.written_at[0] = cluster.state[0].now
    highest = 0.0
    for job in jobs[:count]:
        highest = max(highest, effects.written[job])  # NaN changes nothing
    before = np.nextafter(np.nextafter(highest, np.inf), np.inf)
    for place in best_first(scores, count):
        job = jobs[place]
        if anew:
            effects.written[job] = scores[place]
        written = effects.written[job]
        before = np.nextafter(before, -np.inf) if np.isnan(written) else written
        scores[place] = before


@compiled
def _place_points(
    cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray
) -> None:
    """Turn scores into the points that the hook has written for each job's place in the order.

    Between cycles only new jobs get points. Like the hook, a cycle keeps points that differ by at
    most INFLUENCE_TOLERANCE of the influence.
    """
    count, influence = cluster.state[0].pending, effects.influence
    remembers, anew = effects.refresh > 0.0, writes_now(cluster, effects)
    if anew:
        effects.written_at[0] = cluster.state[0].now
    # pending jobs are in order of submission, which a stable sort keeps among equals
    order = best_first(scores, count)
    for place in range(count):
        job, points = jobs[order[place]], np.rint(influence * (count - place) / count)
        if remembers:
            known = not np.isnan(effects.written[job])
            off = abs(points - effects.written[job]) > INFLUENCE_TOLERANCE * influence
            if known and not (anew and off):
                points = effects.written[job]
            elif known or points != 0.0:
                effects.recalculated[job] = cluster.state[0].now
            effects.written[job] = points
        scores[order[place]] = points


@compiled
def _bound_influence(
    cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray
) -> None:
    """A job's priority is the site's own; its place in the order adds up to `influence` points.

    Its age is that of the last calculation, or of the last write of its site factor: slurmctld's
    update_job calculates the whole priority. The rail of the reserve adds the points that put a
    job first.
    """
    _place_points(cluster, effects, scores, jobs)
    calculated = calculate(cluster, effects.site)
    for place in range(cluster.state[0].pending):
        job, at = jobs[place], calculated
        if len(effects.recalculated) > 0:
            at = max(at, effects.recalculated[job])
        scores[place] += site_points(cluster, effects.site, job, at)
    if rail_orders(cluster):
        raise_steps(cluster, scores, jobs)


@compiled
def _put_starved_first(
    cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray
) -> None:
    """Starved jobs take the best places that their account's jobs have; the others move down."""
    count, now = cluster.state[0].pending, cluster.state[0].now
    account, wait = np.empty(count, dtype=np.int64), np.empty(count)
    for place in range(count):
        account[place] = cluster.jobs[jobs[place]].account
        wait[place] = now - cluster.jobs[jobs[place]].submit
    starved = wait > effects.starvation
    if not starved.any():
        return
    given = scores[:count].copy()
    by_score = np.argsort(-given, kind="mergesort")
    places = by_score[np.argsort(account[by_score], kind="mergesort")]
    wanted = np.argsort(np.where(starved, -wait, -given), kind="mergesort")
    wanted = wanted[np.argsort(~starved[wanted], kind="mergesort")]
    wanted = wanted[np.argsort(account[wanted], kind="mergesort")]
    for rank in range(count):
        scores[wanted[rank]] = given[places[rank]]


@compiled
def _keep_site_points(
    cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray
) -> None:
    """Turn scores into ranks by the points of each place plus the site's own for the job.

    As in the hook (`said_order.in_site_order`), a job passes only jobs of its step, and a starved
    job has the points of the best job of its account.
    """
    count, site = cluster.state[0].pending, effects.site
    order = best_first(scores, count)
    best = np.full(len(cluster.shares), -np.inf)
    for job in jobs[:count]:
        best[cluster.jobs[job].account] = max(best[cluster.jobs[job].account], site.standing[job])
    value, step = np.empty(count), np.zeros(count, dtype=np.int64)
    lifts = cluster.state[0].starving > 0.0
    for rank in range(count):
        job = jobs[order[rank]]
        starved = cluster.state[0].now - cluster.jobs[job].submit > effects.starvation
        if rail_orders(cluster):
            step[rank] = rail_step(cluster, job)
            starved |= lifts and step[rank] > 0
        own = best[cluster.jobs[job].account] if starved else site.standing[job]
        value[rank] = site.span * (count - rank) / count + own
    for each in range(3):
        ranks = np.flatnonzero(step == each)
        by_value = best_first(value[ranks], len(ranks))
        scores[order[ranks[by_value]]] = 1.0 * (count - ranks)


def _as_they_are(cluster: Cluster, effects: NoEffects, scores: FloatArray, jobs: IntArray) -> None:
    pass


@chosen_by_type("effects", {NoEffects: _as_they_are})
def as_written(cluster: Cluster, effects: HookEffects, scores: FloatArray, jobs: IntArray) -> None:
    """Turn a policy's scores of `jobs`, in place, into those that the batch system orders by."""
    if not np.isinf(effects.starvation):
        _put_starved_first(cluster, effects, scores, jobs)
    if not np.isinf(effects.influence):
        _bound_influence(cluster, effects, scores, jobs)
        return
    if len(effects.site.standing) > 0:
        _keep_site_points(cluster, effects, scores, jobs)
    if effects.refresh > 0.0:
        _keep_written(cluster, effects, scores, jobs)
