"""The digest that keeps a model from being fed other features than it learned."""

from dataclasses import replace

import pytest

from slurm_rl_plugin.features.site import SITE


def test_the_site_schema_is_the_released_one():
    # If this fails, features have changed: raise SITE.version, retrain, then write the new digest.
    assert SITE.version == 2
    assert SITE.digest == "533c9710076aa6fa3fec30d3993dba6ca96690d3668a65b7eda5ca1f95749da9"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"version": 99},
        {"queue": SITE.queue[::-1]},
        {"queue": SITE.queue[1:]},
        {"dynamic_jobs": SITE.dynamic_jobs[::-1]},
        {"queue": SITE.queue[:-1], "static_jobs": (SITE.queue[-1], *SITE.static_jobs)},
    ],
    ids=["name", "version", "order", "fewer", "job order", "moved"],
)
def test_any_change_of_the_schema_changes_the_digest(change):
    assert replace(SITE, **change).digest != SITE.digest


def test_static_features_come_before_dynamic_ones():
    assert SITE.jobs == SITE.static_jobs + SITE.dynamic_jobs
    assert len(set(SITE.jobs)) == len(SITE.jobs)
