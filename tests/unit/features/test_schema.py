"""The digest that keeps a model from being fed other features than it learned."""

from dataclasses import replace

import pytest

from slurm_rl_plugin.features.site import (
    RESOURCE_FEATURES,
    SCARCE_SHARE,
    SCARCITY_FEATURES,
    SITE,
    SITE_OF_PROCESSORS,
)


def test_the_site_schema_is_the_released_one():
    # If this fails, features have changed: raise SITE.version, retrain, then write the new digest.
    assert SITE.version == 4
    assert SITE.digest == "08e0bc67c1cc947443bfa657f940ea9da2bf87906ebba8695707fd3a05cc6262"


def test_models_of_the_version_before_resources_are_still_read():
    old = SITE_OF_PROCESSORS
    assert old.version == 3
    assert old.digest == "72027bc13ffb07a5040bbb79f890c0df6df62a8c7651e829d4c36529c8308a17"
    assert set(SITE.queue) - set(old.queue) == {*SCARCITY_FEATURES}
    assert set(SITE.jobs) - set(old.jobs) == {*RESOURCE_FEATURES, SCARCE_SHARE}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"version": 99},
        {"queue": SITE.queue[::-1]},
        {"queue": SITE.queue[1:]},
        {"dynamic_jobs": SITE.dynamic_jobs[::-1]},
        {"history_jobs": SITE.history_jobs[::-1]},
        {"queue": SITE.queue[:-1], "static_jobs": (SITE.queue[-1], *SITE.static_jobs)},
    ],
    ids=["name", "version", "order", "fewer", "job order", "history order", "moved"],
)
def test_any_change_of_the_schema_changes_the_digest(change):
    assert replace(SITE, **change).digest != SITE.digest


def test_static_features_come_before_dynamic_ones_and_history_comes_last():
    assert SITE.jobs == SITE.static_jobs + SITE.dynamic_jobs + SITE.history_jobs
    assert len(set(SITE.jobs)) == len(SITE.jobs)
