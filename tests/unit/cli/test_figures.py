"""Figures of schedules: all are drawn, and the queue shown is the queue that there was."""

import time

import numpy as np
import pytest

from slurm_rl_plugin.evaluation import schedule_figures as figures
from slurm_rl_plugin.evaluation.schedule_figures import draw_schedules
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
