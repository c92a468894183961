"""The digest that keeps a model from being fed other features than it learned."""

from dataclasses import replace

import pytest

from slurm_rl_plugin.features.site import SITE, USUAL


def test_the_site_schema_is_the_released_one():
    # If this fails, features have changed: raise SITE.version, retrain, then write the new digest.
    assert SITE.version == 5
    assert SITE.digest == "880c91c623604e9954de8e8f710e3a8a5f62af043fa2905c56d6dc964dabe32e"


def test_it_is_said_where_each_job_feature_lies():
    assert set(USUAL) == set(SITE.jobs)
    assert all(half > 0 for _, half in USUAL.values())


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
