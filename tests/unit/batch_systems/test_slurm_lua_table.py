"""The rules of job classes in the words that job_submit.lua reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.class_defaults.table import lua_table, told_rules
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES, JobClassRule


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [("qos", {"batch_qos": "bulk"}), ("licenses", {"batch_license": "slot"}), (None, {})],
)
def test_the_script_hears_what_batch_jobs_need_for_a_limit(
    mechanism: str | None, more: dict[str, str]
) -> None:
    limit = LimitKeys(
        mechanism=mechanism,
        qos="bulk",
        license="slot",
        reservation="ours",
        queues=(),
        is_known=True,
    )
    assert lua_table(Path("t"), (), 60.0, limit).more == more


def test_rules_are_told_by_the_names_that_the_cluster_has() -> None:
    said = list(told_rules(DEFAULT_JOB_CLASS_RULES, ("short", "long"), ("my-debug", "normal")))
    assert said == [
        "interactive partition=short",
        "interactive qos=my-debug",
        "interactive time_limit_at_most=28800 no_batch_script=yes",
        "interactive time_limit_at_most=900",
    ]


def test_a_rule_that_cannot_be_told_makes_no_job_interactive_and_none_batch() -> None:
    by_name = JobClassRule(job_class="interactive", name="^quick")
    short = JobClassRule(job_class="interactive", time_limit_at_most=60.0)
    bulk = JobClassRule(job_class="batch", user="^robot$")
    told = ["interactive time_limit_at_most=60", "unknown"]
    assert list(told_rules((by_name, short), (), ())) == told
    assert list(told_rules((short, bulk, by_name, short), (), ())) == told
    script = JobClassRule(job_class="batch", no_batch_script=False)
    words = ["unknown no_batch_script=no", *told]
    assert list(told_rules((by_name, script, short), (), ())) == words
    nobody = JobClassRule(job_class="interactive", qos="^a b$|x")
    assert list(told_rules((nobody,), (), ("a b",))) == ["interactive qos=="]
