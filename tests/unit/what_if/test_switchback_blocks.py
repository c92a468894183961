"""Blocks that coins declare, what a block costs, blocks played again, and a live cluster."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import (
    BLOCK_HOURS,
    OURS,
    SITE,
    Declaration,
    Pairs,
    TurnBlock,
    drawn_blocks,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, site_now
from slurm_rl_plugin.forecasts.live.sources import own_order
from slurm_rl_plugin.papers.switchback.clusters import WARM_UP, DrawnTrial, equal_models, with_gain
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.utility.time_utility import bounded_slowdown
from slurm_rl_plugin.what_if.switchback.block_costs import (
    GOALS,
    JobTimes,
    ReplayedCluster,
    costs,
    costs_of_blocks,
    live_cluster,
)
from tests.case_files import rows
from tests.unit.forecasts.live_site import LiveSite, busy_look, last_days, live_site, replay_source

BEGIN = 1_700_000_000.0


def declared(blocks: tuple[TurnBlock, ...], **more: Any) -> Declaration:
    """An experiment of given blocks, about mean waits."""
    usual: dict[str, Any] = {"harm": 1.1, "longest_wait": np.inf, "seed": 4, "day": DAY}
    return Declaration(
        **{"goal": "wait", "policy": "sjf", "model_sha256": "", "blocks": blocks, **usual, **more}
    )


@pytest.mark.parametrize("hours", [BLOCK_HOURS, (4,), (24,), (3, 8)])
def test_each_hour_of_a_day_is_held_once_by_each_in_two_days(hours: tuple[int, ...]) -> None:
    experiment = declared(drawn_blocks(BEGIN, 20, hours, 11))
    assert experiment.begin == BEGIN
    assert experiment.end == pytest.approx(BEGIN + 20 * DAY)
    for earlier, later in zip(experiment.blocks, experiment.blocks[1:], strict=False):
        assert later.begin == earlier.end
    for first in range(0, 20, 2):
        for hour in range(24):
            middle = BEGIN + first * DAY + (hour + 0.5) * HOUR
            held = [experiment.block_at(middle + day * DAY) for day in (0, 1)]
            assert {each.arm for each in held if each} == {SITE, OURS}
            assert len({each.pair for each in held if each}) == 1


def test_coins_are_new_ones_for_each_seed_and_fair() -> None:
    one, same, other = (drawn_blocks(BEGIN, 8, (4, 6), seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    first = [drawn_blocks(BEGIN, 2, (24,), seed)[0].arm == OURS for seed in range(400)]
    assert 0.4 < np.mean(first) < 0.6


def test_the_first_blocks_are_the_shortest_odd_days_are_left_out_and_days_may_be_short() -> None:
    blocks = drawn_blocks(BEGIN, 9, (6, 12), 3)
    assert blocks[0].end - blocks[0].begin == 6 * HOUR
    assert blocks[-1].end == pytest.approx(BEGIN + 8 * DAY)
    blocks = drawn_blocks(BEGIN, 4, (4,), 3, day=240.0)
    plain = drawn_blocks(BEGIN, 4, (4,), 3)
    assert [each.arm for each in blocks] == [each.arm for each in plain]
    assert blocks[-1].end == pytest.approx(BEGIN + 4 * 240.0)
    assert blocks[0].counted_from == pytest.approx(BEGIN + 240.0 / 6 / 8)
    assert plain[0].counted_from == BEGIN + HOUR / 2


@pytest.mark.parametrize(("days", "hours"), [(4, ()), (4, (5,)), (1, (4,))])
def test_experiments_that_make_no_sense_are_refused(days: int, hours: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError):
        drawn_blocks(BEGIN, days, hours, 1)


@pytest.mark.parametrize("longest_wait", [np.inf, 86400.0])
def test_a_declaration_is_read_back_as_it_was(longest_wait: float) -> None:
    experiment = declared(drawn_blocks(BEGIN, 6, (3, 8), 5), longest_wait=longest_wait)
    text = json.dumps(experiment.as_json(), allow_nan=False)
    assert Declaration.of_json(json.loads(text)) == experiment


def test_the_usual_bound_on_service_leaves_the_name_of_an_earlier_release() -> None:
    usual = declared(drawn_blocks(BEGIN, 6, (3, 8), 5))
    assert "misdelivered" not in usual.as_json()
    stricter = replace(usual, misdelivered=0.1)
    assert stricter.name != usual.name
    assert Declaration.of_json(stricter.as_json()) == stricter


@rows("declarations", "refused", "keys")
def test_what_is_no_declaration_is_refused(keys: dict[str, Any]) -> None:
    document = declared(drawn_blocks(BEGIN, 2, (12,), 5)).as_json()
    with pytest.raises(ValueError, match=r"\w"):
        Declaration.of_json({**document, **keys})


@pytest.mark.parametrize("document", [None, 3, "text", [], {}, {"blocks": []}])
def test_no_document_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Declaration.of_json(document)


def test_the_block_of_a_time_and_how_many_are_over() -> None:
    experiment = declared(drawn_blocks(BEGIN, 2, (12,), 5))
    assert experiment.block_at(BEGIN - 1.0) is None
    assert experiment.block_at(BEGIN) == experiment.blocks[0]
    assert experiment.block_at(BEGIN + 12 * HOUR) == experiment.blocks[1]
    assert experiment.block_at(experiment.end) is None
    over = [experiment.closed(BEGIN + hours * HOUR) for hours in (0, 11, 12, 47, 48, 100)]
    assert over == [0, 0, 1, 3, 4, 4]


def test_pairs_whose_both_blocks_are_over() -> None:
    arms = ((OURS, 0), (SITE, 1), (SITE, 0), (OURS, 1))
    blocks = tuple(
        TurnBlock(begin=float(at), end=at + 1.0, arm=arm, pair=pair)
        for at, (arm, pair) in enumerate(arms)
    )
    assert len(Pairs.closed(declared(blocks), 2).first) == 0
    half = Pairs.closed(declared(blocks), 3)
    assert (half.first.tolist(), half.second.tolist()) == ([0], [2])
    whole = Pairs.closed(declared(blocks), 4)
    assert whole.ours_first.tolist() == [True, False]
    assert whole.ours_less_site(np.array([5.0, 1.0, 2.0, 9.0])).tolist() == [3.0, 8.0]


def goal(name: str) -> int:
    return list(GOALS).index(name)


def test_costs_of_blocks_add_up_to_what_jobs_waited() -> None:
    """Waits and slowdowns are sums over time, however it is cut."""
    trial = equal_models(77, 6)
    start = trial.starts(())
    times = JobTimes(jobs=trial.jobs, start=start, capacity=128)
    ends = np.linspace(0.0, float(start.max()) + 1.0, 40)
    cuts = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
    hours = np.diff(ends) / HOUR
    sums = hours @ np.array([costs(times, begin, end) for begin, end in cuts])
    wait, run = start - trial.jobs.submit, trial.jobs.run_time
    assert sums[goal("wait")] == pytest.approx(wait.sum() / HOUR)
    only = float((run / np.maximum(run, 10.0)).sum())  # what a job has that does not wait
    assert sums[goal("bounded_slowdown")] == pytest.approx(
        float(bounded_slowdown(wait, run).sum()) - only
    )
    waited = wait[trial.jobs.interactive].sum() / HOUR
    assert sums[goal("interactive_wait")] == pytest.approx(waited)


def test_costs_that_are_not_sums() -> None:
    trial = equal_models(78, 2)
    nobody = trial.jobs.select(np.array([0, 1, 2]))
    never = JobTimes(jobs=nobody, start=np.array([np.nan, np.inf, np.nan]), capacity=128)
    begin, end = float(nobody.submit[2]), float(nobody.submit[2]) + HOUR
    found = costs(never, begin, end)
    assert found[goal("wait")] == pytest.approx(3.0)
    assert found[goal("longest_wait")] == pytest.approx((end - float(nobody.submit[0])) / HOUR)
    assert found[goal("unused")] == 1.0
    assert found[goal("unfairness")] == 0.0


def known_orders() -> DrawnTrial:
    """Replays know all of what orders the queue."""
    trial = with_gain(79, 6, 0.15)
    return replace(trial, scores=trial.known)


def test_a_block_played_again_under_its_own_order_is_the_block_that_was() -> None:
    trial = known_orders()
    blocks = drawn_blocks(WARM_UP * DAY, 6, (4, 6, 8, 12), 80)
    start = trial.starts(blocks)
    told = list[int]()
    found = costs_of_blocks(trial.replayed(start), blocks, told.append)
    ours = np.array([block.arm == OURS for block in blocks])
    own = np.where(ours[:, None], found.by_ours, found.by_site)
    assert own == pytest.approx(found.measured)
    assert not np.allclose(found.by_ours, found.by_site)
    assert told == [1] * len(blocks) == [1] * len(found)


@pytest.fixture(scope="module")
def site() -> LiveSite:
    return live_site()


@pytest.fixture(scope="module")
def looked(site: LiveSite) -> tuple[SiteAt, ReplayedCluster]:
    """The site at a look, and its cluster."""
    now = busy_look(site, last_days(site, 2.0, HOUR))
    at = site_now(site.history(now), site.queue(now, now - HOUR), 7.0 * DAY)[0]
    return at, live_cluster(at, replay_source(), own_order, own_order)


def test_who_has_not_ended_runs_as_long_as_is_foretold(
    site: LiveSite, looked: tuple[SiteAt, ReplayedCluster]
) -> None:
    at, cluster = looked
    log, all_jobs, jobs = at.prepared.log, site.log, np.concatenate([at.running, at.pending])
    asked = zip(all_jobs.submit.tolist(), all_jobs.processors.tolist(), strict=True)
    whose = dict(zip(asked, all_jobs.run_time.tolist(), strict=True))
    mine = zip(log.submit[jobs].tolist(), log.processors[jobs].tolist(), strict=True)
    truth = np.array([whose[each] for each in mine])
    foretold, limit = cluster.times.jobs.run_time[jobs], cluster.times.jobs.time_limit[jobs]

    def off(run_time: np.ndarray) -> float:
        return float(np.abs(np.log(run_time / truth)).mean())

    assert len(jobs) >= 8
    assert off(foretold) < 0.5 * off(limit)
    assert (foretold <= limit + 1.0).all()
    ran = at.now - cluster.times.start[at.running]
    assert (cluster.times.jobs.run_time[at.running] > ran).all()
    over = np.setdiff1d(np.arange(len(log)), jobs)
    np.testing.assert_array_equal(cluster.times.jobs.run_time[over], log.run_time[over])


def test_what_runs_had_told_does_not_depend_on_what_was_asked_before(
    looked: tuple[SiteAt, ReplayedCluster],
) -> None:
    at, cluster = looked
    earlier, later = at.now - DAY, at.now - HOUR
    first, then, again = (cluster.past(each) for each in (earlier, later, earlier))
    told = [pickle.dumps(each) for each in (first, then, again)]
    assert told[0] == told[2] != told[1]
