"""Tables of jobs, what jobs weigh, what a site wants of its shares, and what it publishes."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, weighed_processors
from slurm_rl_plugin.domain.site import PublishedUtilities

ASKED = np.array([[16.0, 8_000.0, 0.0], [4.0, 256_000.0, 0.0], [4.0, 8_000.0, 2.0]])


@pytest.mark.parametrize(
    ("gpus", "beside", "weighed"),
    [
        (8.0, None, [16.0, 64.0, 32.0]),
        (8.0, [128.0, 128.0, 32.0], [16.0, 64.0, 8.0]),  # of the nodes that have GPUs
        (0.0, None, [16.0, 64.0, 4.0]),  # what the machine has none of weighs nothing
    ],
)
def test_a_job_weighs_the_processors_of_its_dominant_share(gpus, beside, weighed):
    machine = np.array([128.0, 512_000.0, gpus])
    asked = ResourceRequests.of_totals(ASKED, nodes=np.zeros(3, dtype=np.int64))
    cpus = None if beside is None else np.array(beside)
    found = weighed_processors(ASKED[:, 0], asked, BASIC_RESOURCES, machine, cpus)
    assert found.tolist() == weighed


def test_jobs_of_processors_alone_weigh_what_they_ask_for():
    processors = np.array([3.0, 7.0])
    assert weighed_processors(processors, None, BASIC_RESOURCES, np.ones(3)) is processors


@pytest.mark.parametrize(
    ("shares", "points"),
    [
        ([0.5, 0.3, 0.2], 16.0),
        ([0.5, 0.5], 0.0),  # the share of every account without configured ones
        ([1 / 3, 1 / 3, 1 - 2 / 3], 0.0),  # equal but for a rounding
        ([1.0], 0.0),
        ([], 0.0),
    ],
)
def test_shares_that_differ_count_where_nobody_said(shares: list[float], points: float) -> None:
    found = Goals(interactive=2.0).resolved(np.array(shares))
    assert found == Goals(shares=points, interactive=2.0)


PUBLISHED = PublishedUtilities(
    site="north",
    time=100.0,
    valid_for=60.0,
    model="abc",
    utilities={"interactive": {"physics": 0.5}},
)


@pytest.mark.parametrize(
    ("now", "fresh"), [(100.0, True), (160.0, True), (160.1, False), (40.0, True), (39.9, False)]
)
def test_it_is_fresh_for_as_long_as_it_says(now: float, fresh: bool) -> None:
    assert PUBLISHED.fresh_at(now) == fresh
