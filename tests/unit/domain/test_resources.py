"""What jobs weigh on a machine of several resources."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain.resources import (
    BASIC_RESOURCES,
    ResourceRequests,
    weighed_processors,
)

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
