"""Two real clusters, one with GPUs: a site without enough GPUs is no candidate."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.real.conftest import skip_without_daemons
from tests.real.private_cluster import NodeKind
from tests.real.slurm_releases import SlurmRelease
from tests.real.two_sites import NAMES, TwoSites, two_sites

pytestmark = pytest.mark.real

NORTH, SOUTH = NAMES
QUICK = "busy_share = 1\nkeep = 0\ntimeout = 5\nrequests_per_minute = 100000"
KINDS = {SOUTH: (NodeKind(name="g", count=1, processors=4, gpus=2),)}


@pytest.fixture(scope="module")
def sites(release: SlurmRelease | None) -> Iterator[TwoSites]:
    skip_without_daemons(release)
    with two_sites(release, dict.fromkeys(NAMES, QUICK), KINDS) as both:
        yield both


def candidates(sites: TwoSites, *options: str) -> list[str]:
    document = sites.routed("--", "sbatch", "--time=1", *options, "--wrap=true")
    return sorted(each["site"] for each in document["ranking"])


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=gpu:2",),
        ("--gpus=2", "--cpus-per-gpu=1"),
        ("--gpus=2", "--gpus-per-task=1"),
        ("--gpus=1", "--ntasks-per-gpu=2"),
        ("--ntasks=2", "--gpus-per-task=1", "--mem-per-gpu=100"),
    ],
    ids=" ".join,
)
def test_a_job_of_gpus_goes_where_they_are(sites: TwoSites, options: tuple[str, ...]) -> None:
    assert candidates(sites, *options) == [SOUTH]


def test_a_job_of_processors_may_go_to_both_and_one_of_too_many_gpus_to_none(
    sites: TwoSites,
) -> None:
    assert candidates(sites, "--ntasks=1") == [NORTH, SOUTH]
    done = sites.route("--json", "--", "sbatch", "--time=1", "--gres=gpu:3", "--wrap=true")
    assert done.returncode == 1
    assert [each["site"] for each in json.loads(done.stdout)["skipped"]] == [NORTH, SOUTH]
