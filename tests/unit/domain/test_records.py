"""Tables of jobs, what jobs weigh, what a site wants of its shares, and what it publishes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, weighed_processors
from slurm_rl_plugin.domain.site import PublishedUtilities
from tests.reference.loads import random_workload, table_of

TABLE = table_of(random_workload(1, jobs=6, parallel=True))


@pytest.mark.parametrize(
    "index", [np.array([4, 0, 2]), np.array([True, False, True, False, False, True])]
)
def test_select_takes_the_same_rows_of_every_column(index):
    chosen = TABLE.select(index)
    for field in dataclasses.fields(TABLE):
        before, after = getattr(TABLE, field.name), getattr(chosen, field.name)
        if before is None:
            assert after is None
            continue
        np.testing.assert_array_equal(after, before[index])


def test_requests_are_cut_with_their_jobs():
    total = np.arange(18.0).reshape(6, 3)
    requests = ResourceRequests.of_totals(total, nodes=np.arange(6))
    chosen = dataclasses.replace(TABLE, requests=requests).select(np.array([5, 2])).requests
    assert chosen.nodes.tolist() == [5, 2]
    assert chosen.of("memory").tolist() == [16.0, 7.0]
    assert chosen.of("gres/gpu:a100").tolist() == [0.0, 0.0]


MACHINE = np.array([128.0, 512_000.0, 8.0])
ASKED = np.array([[16.0, 8_000.0, 0.0], [4.0, 256_000.0, 0.0], [4.0, 8_000.0, 2.0]])


def requests(total: np.ndarray) -> ResourceRequests:
    return ResourceRequests.of_totals(total, nodes=np.zeros(len(total), dtype=np.int64))


def test_a_job_weighs_the_processors_of_its_dominant_share():
    weighed = weighed_processors(ASKED[:, 0], requests(ASKED), BASIC_RESOURCES, MACHINE)
    assert weighed.tolist() == [16.0, 64.0, 32.0]


def test_gpus_weigh_the_processors_of_the_nodes_that_have_them():
    beside = np.array([128.0, 128.0, 32.0])
    weighed = weighed_processors(ASKED[:, 0], requests(ASKED), BASIC_RESOURCES, MACHINE, beside)
    assert weighed.tolist() == [16.0, 64.0, 8.0]


def test_what_the_machine_has_none_of_weighs_nothing():
    without_gpus = np.array([128.0, 512_000.0, 0.0])
    weighed = weighed_processors(ASKED[:, 0], requests(ASKED), BASIC_RESOURCES, without_gpus)
    assert weighed.tolist() == [16.0, 64.0, 4.0]


def test_jobs_of_processors_alone_weigh_what_they_ask_for():
    processors = np.array([3.0, 7.0])
    assert weighed_processors(processors, None, BASIC_RESOURCES, MACHINE) is processors


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
