"""Job-class rules: order, patterns, limits and what is refused."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain.job_class import (
    DEFAULT_JOB_CLASS_RULES,
    JobClassifier,
    JobClassRule,
    JobDescription,
    words_for_us,
)
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from tests.case_files import known, rows


def job(**fields):
    plain = {
        "partition": "long",
        "qos": "normal",
        "name": "run.sh",
        "time_limit": 86400.0,
        "has_batch_script": True,
        "account": "physics",
        "user": "ada",
    }
    return JobDescription(**{**plain, **fields})


#: When each job could first have started.
SINCE = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
UNKNOWN = {"unknown": None, True: True, False: False}


@rows("job_classes", "sites", "site")
def test_a_job_has_the_class_of_its_rules_or_of_its_user(site):
    site = known(site, "rules", "classes", "jobs")
    rules = [JobClassRule(**rule) for rule in site.get("rules", [])] or DEFAULT_JOB_CLASS_RULES
    own = {name: UtilityClass(**keys) for name, keys in site.get("classes", {}).items()}
    classifier = JobClassifier(rules, {**BUILT_IN, **own})
    for fields, name, *more in site["jobs"]:
        described = job(**fields)
        script = UNKNOWN[described.has_batch_script]
        found = classifier.job_class(replace(described, has_batch_script=script), SINCE)
        assert list(classifier.classes)[found.number] == name, fields
        assert found.interactive == classifier.classes[name].interactive, fields
        assert found.by_limit == ("by_limit" in more), fields
        assert found.by_user == ("by_user" in more), fields
        allowed = [each for each in more if isinstance(each, float)]
        assert [found.allowed] == allowed or (not allowed and math.isnan(found.allowed)), fields


def test_an_unknown_class_is_refused():
    with pytest.raises(ConfigurationError, match="'urgent' is unknown"):
        JobClassifier((JobClassRule(job_class="urgent", user="ada"),))
    with pytest.raises(ConfigurationError, match="'' is unknown"):
        JobClassRule(job_class="", user="ada")


#: Jobs of a quarter of an hour are interactive; users may choose two other classes.
CHOSEN = JobClassifier(
    (JobClassRule(job_class="interactive", time_limit_at_most=900.0),),
    {
        **BUILT_IN,
        "due": UtilityClass(form="deadline", hours=48.0, interactive=True, users=True),
        "nightly": UtilityClass(form="power", users=True),
        "ours": UtilityClass(form="power", interactive=True),
    },
)


def test_the_last_words_of_a_comment_count():
    assert words_for_us("x slurm-rl:class=a, slurm-rl:class=b c") == "slurm-rl:class=b"
    assert words_for_us("(null)") == ""


@given(
    st.text(max_size=70)
    | st.datetimes().map(datetime.isoformat)
    | st.datetimes().map(lambda each: f"{each:%Y-%m-%dT%H:%M}-23:59")
)
def test_no_words_of_a_user_stop_the_daemon(text):
    for word in ("deadline", "class", ""):
        words = words_for_us(f"slurm-rl:{word}={text}")
        counts = CHOSEN.job_class(job(words=words), 1.8e9)
        assert not counts.allowed > 48 * 3600.0
