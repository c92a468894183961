"""Tables of jobs, what jobs weigh, what a site wants of its shares, and what it publishes."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, weighed_processors
from slurm_rl_plugin.domain.site import PublishedUtilities
from tests.case_files import rows

ASKED = np.array([[16.0, 8_000.0, 0.0], [4.0, 256_000.0, 0.0], [4.0, 8_000.0, 2.0]])


@rows("share_trees", "weighed", "gpus cpus weighed")
def test_a_job_weighs_the_processors_of_its_dominant_share(gpus, cpus, weighed):
    machine = np.array([128.0, 512_000.0, gpus])
    asked = ResourceRequests.of_totals(ASKED, nodes=np.zeros(3, dtype=np.int64))
    known = np.array(cpus) if cpus else None
    found = weighed_processors(ASKED[:, 0], asked, BASIC_RESOURCES, machine, known)
    assert found.tolist() == weighed


def test_jobs_of_processors_alone_weigh_what_they_ask_for():
    processors = np.array([3.0, 7.0])
    assert weighed_processors(processors, None, BASIC_RESOURCES, np.ones(3)) is processors


@rows("share_trees", "points_of_shares", "shares points")
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
