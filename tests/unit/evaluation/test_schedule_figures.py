"""Figures of schedules: all are drawn, with the queue that there was, and no two jobs in a row."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.evaluation import schedule_figures as figures
from slurm_rl_plugin.evaluation.schedule_figures import (
    busiest_window,
    draw_schedules,
    processor_rows,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.utility.summary import ScheduledJobs

NAMES = ["wait-cdf.png", "fairness.png", "queue-length.png", "gantt.png"]


def jobs_of(seed, count, capacity=16):
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.exponential(60.0, size=count))
    return ScheduledJobs(
        submit=submit,
        start=submit + rng.exponential(600.0, size=count),
        run_time=rng.exponential(900.0, size=count) + 0.1,
        processors=rng.integers(1, 5, size=count),
        account=rng.integers(0, 2, size=count),
        interactive=rng.random(count) < 0.5,
        shares=np.array([0.5, 0.5]),
        capacity=capacity,
    )


@pytest.mark.parametrize("count", [1, 2, 500])
def test_every_figure_is_drawn_whole(tmp_path, count):
    schedules = {f"policy {seed}": jobs_of(seed, count) for seed in range(3)}
    paths = draw_schedules(tmp_path / "new" / "folder", schedules)
    folder = tmp_path / "new" / "folder"
    assert paths == [str(folder / name) for name in NAMES]
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in NAMES)
    assert len(list(folder.iterdir())) == len(NAMES)


def test_one_policy_and_jobs_of_one_class_are_enough(tmp_path):
    jobs = jobs_of(1, 50)
    jobs.interactive[:] = False
    assert len(draw_schedules(tmp_path, {"fifo": jobs})) == len(NAMES)


def test_a_long_log_is_drawn_in_seconds(tmp_path):
    schedules = {f"policy {seed}": jobs_of(seed, 200_000, capacity=2000) for seed in range(2)}
    begin = time.perf_counter()
    draw_schedules(tmp_path, schedules)
    assert time.perf_counter() - begin < 30


def test_the_line_shows_the_longest_queue_of_each_stretch():
    jobs = jobs_of(4, 3000)
    figure = figures._draw_queues({"fifo": jobs})
    line = figure.axes[0].lines[0].get_ydata()
    moments = np.concatenate([jobs.submit, jobs.start])
    pending = [((jobs.submit <= now) & (jobs.start > now)).sum() for now in moments]
    assert max(line) == max(pending)
    step = (jobs.start.max() - jobs.submit.min()) / figures._STEPS
    first = moments < jobs.submit.min() + step
    assert line[0] == max(np.array(pending)[first])


def test_a_queue_that_does_not_change_for_long_is_still_shown():
    jobs = jobs_of(1, 3)
    jobs.submit[:], jobs.start[:] = [0.0, 1.0, 2.0], [0.0, 1e6, 1e6]
    line = figures._draw_queues({"fifo": jobs}).axes[0].lines[0].get_ydata()
    assert line[-1] == line[len(line) // 2] == 2


def schedule_of(seed, jobs=150, capacity=12, start=None):
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.exponential(20.0, size=jobs)) + 1.7e9
    run_time = np.maximum(rng.lognormal(4.0, 1.5, size=jobs), 0.01)
    processors = rng.integers(1, capacity + 1, size=jobs)
    workload = Workload.of(
        submit=submit,
        run_time=run_time,
        estimate=run_time,
        time_limit=run_time,
        processors=processors,
        account=np.zeros(jobs, dtype=np.int64),
        interactive=run_time < 60,
        shares=np.ones(1),
    )
    if start is None:
        options = SimulationSettings(capacity=capacity, backfilling="easy")
        start = simulate_scores(workload, -submit, options).start
    return ScheduledJobs(
        submit=submit,
        start=start,
        run_time=run_time,
        processors=processors,
        account=workload.account,
        interactive=workload.interactive,
        shares=workload.shares,
        capacity=capacity,
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), window=st.integers(1, 150))
def test_all_jobs_of_the_window_have_their_processors_and_share_none(seed, window):
    jobs = schedule_of(seed)
    begin, end = busiest_window(jobs, window)
    assert end > begin
    blocks = processor_rows(jobs, begin, end)
    assert all(0 <= each.bottom < each.top <= jobs.capacity for each in blocks)
    assert all(begin <= each.begin < each.end <= end for each in blocks)
    ends = jobs.start + jobs.run_time
    cut = np.minimum(ends, end) - np.maximum(jobs.start, begin)
    expected = (np.maximum(cut, 0) * jobs.processors).sum()
    drawn = sum((each.end - each.begin) * (each.top - each.bottom) for each in blocks)
    np.testing.assert_allclose(drawn, expected, rtol=1e-6, atol=1e-3)
    for row in range(jobs.capacity):
        mine = sorted((e.begin, e.end) for e in blocks if e.bottom <= row < e.top)
        for (_, over), (next_begin, _) in pairwise(mine):
            assert over <= next_begin + 1e-4


def test_jobs_that_run_throughout_lie_at_the_bottom():
    jobs = schedule_of(3)
    begin, end = busiest_window(jobs, 4)
    blocks = processor_rows(jobs, begin, end)
    through = [each for each in blocks if each.began_before and each.ends_after]
    rest = [each for each in blocks if not (each.began_before and each.ends_after)]
    assert max(each.top for each in through) <= min(each.bottom for each in rest)


def test_a_recorded_schedule_beyond_the_capacity_gets_more_rows():
    jobs = schedule_of(1, jobs=5, start=np.full(5, 1.7e9 + 1000))
    begin, end = busiest_window(jobs)
    blocks = processor_rows(jobs, begin, end)
    assert max(each.top for each in blocks) == jobs.processors.sum() > jobs.capacity


def test_the_window_holds_the_longest_queue():
    jobs = schedule_of(5)
    begin, end = busiest_window(jobs, 20)
    assert ((jobs.start >= begin) & (jobs.start <= end)).sum() >= 20
    pending = [((jobs.submit <= now) & (jobs.start >= now)).sum() for now in jobs.start]
    assert begin <= jobs.start[int(np.argmax(pending))] <= end


def test_a_single_job_has_a_window():
    jobs = schedule_of(1, jobs=1)
    begin, end = busiest_window(jobs)
    (block,) = processor_rows(jobs, begin, end)
    assert (block.begin, block.end) == (begin, end)
    assert block.top - block.bottom == jobs.processors[0]
