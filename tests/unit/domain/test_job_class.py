"""Job-class rules: order, patterns, limits and what is refused."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain.job_class import (
    JobClassifier,
    JobClassRule,
    JobDescription,
    words_for_us,
)
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError


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


@pytest.mark.parametrize("field", ["partition", "qos", "name", "account", "user"])
def test_a_pattern_is_searched_in_its_own_field_only(field):
    rule = JobClassRule(job_class="interactive", **{field: "^abc"})
    assert rule.matches(job(**{field: "abcde"}))
    assert not rule.matches(job(**{field: "xabc"}))
    others = {"partition", "qos", "name", "account", "user"} - {field}
    assert not rule.matches(job(**dict.fromkeys(others, "abc")))


@pytest.mark.parametrize("field", ["partition", "qos"])
def test_of_several_names_all_are_interactive_or_one_is_batch(field):
    quick = JobClassRule(job_class="interactive", **{field: "^debug"})
    slow = JobClassRule(job_class="batch", **{field: "^long"})
    assert quick.matches(job(**{field: "debug,debug2"}))
    for names in ("debug,long", "long,debug"):
        assert not quick.matches(job(**{field: names}))
        assert slow.matches(job(**{field: names}))
    assert not slow.matches(job(**{field: "debug,short"}))


def test_a_rule_matches_only_if_everything_it_names_does():
    rule = JobClassRule(job_class="interactive", partition="short", user="ada")
    assert rule.matches(job(partition="short"))
    assert not rule.matches(job(partition="short", user="bob"))
    assert not rule.matches(job())


@pytest.mark.parametrize(
    ("limit", "matches"), [(899.0, True), (900.0, True), (901.0, False), (math.nan, False)]
)
def test_a_time_limit_rule_includes_its_bound_and_skips_unknown_limits(limit, matches):
    rule = JobClassRule(job_class="interactive", time_limit_at_most=900.0)
    assert rule.matches(job(time_limit=limit)) is matches


@pytest.mark.parametrize("none", [True, False])
@pytest.mark.parametrize("script", [True, False, None])
def test_only_jobs_known_to_have_a_batch_script_or_none_match(none, script):
    rule = JobClassRule(job_class="interactive", no_batch_script=none)
    assert rule.matches(job(has_batch_script=script)) is (script is (not none))


def test_the_first_matching_rule_decides():
    batch = JobClassRule(job_class="batch", user="ada")
    interactive = JobClassRule(job_class="interactive", partition="long")
    assert not JobClassifier((batch, interactive)).is_interactive(job())
    assert JobClassifier((interactive, batch)).is_interactive(job())
    assert JobClassifier((interactive, batch)).matching_rule(job(partition="x")) is batch


@pytest.mark.parametrize(
    ("fields", "interactive"),
    [
        ({}, False),
        ({"partition": "debug"}, True),
        ({"partition": "gpu-Interactive"}, True),
        ({"partition": "contest"}, False),  # "test" inside a word says nothing
        ({"qos": "short"}, True),
        ({"name": "debug"}, False),
        ({"has_batch_script": False, "time_limit": 8 * 3600.0}, True),
        ({"has_batch_script": False, "time_limit": 8 * 3600.0 + 60.0}, False),
        ({"has_batch_script": False, "time_limit": math.nan}, False),
        ({"partition": "debug,batch"}, False),
        ({"partition": "debug,short"}, True),
        ({"time_limit": 900.0}, True),
        ({"time_limit": math.nan, "has_batch_script": None}, False),
    ],
)
def test_default_rules_know_what_calls_itself_quick(fields, interactive):
    assert JobClassifier().is_interactive(job(**fields)) is interactive


def test_an_unknown_class_is_refused():
    with pytest.raises(ConfigurationError, match="'urgent' is unknown"):
        JobClassifier((JobClassRule(job_class="urgent", user="ada"),))
    with pytest.raises(ConfigurationError, match="'' is unknown"):
        JobClassRule(job_class="", user="ada")


def test_a_class_of_the_sites_own_says_itself_whether_it_is_interactive():
    own = {
        "SDJ": UtilityClass(form="deadline", interactive=True),
        "due": UtilityClass(form="deadline"),
    }
    rules = (JobClassRule(job_class="SDJ", qos="^now$"), JobClassRule(job_class="due", user="ada"))
    classifier = JobClassifier(rules, {**BUILT_IN, **own})
    assert classifier.class_of(job(qos="now")) == "SDJ"
    assert classifier.is_interactive(job(qos="now"))
    assert classifier.class_of(job(user="ada")) == "due"
    assert not classifier.is_interactive(job(user="ada"))
    assert classifier.class_of(job(user="eve")) == "batch"
    # a job that may start in another QOS too must not claim the class
    assert classifier.class_of(job(qos="now,long", user="eve")) == "batch"


@pytest.mark.parametrize(
    ("fields", "by_limit"),
    [
        ({"time_limit": 900.0}, True),
        ({"time_limit": 900.0, "has_batch_script": None}, True),
        ({"time_limit": 900.0, "has_batch_script": False}, False),  # a session
        ({"time_limit": 900.0, "partition": "debug"}, False),
        ({"time_limit": 901.0}, False),
        ({"time_limit": math.nan}, False),
    ],
)
def test_a_class_is_by_limit_where_a_longer_one_would_make_the_job_batch(fields, by_limit):
    assert JobClassifier().job_class(job(**fields), 0.0).by_limit is by_limit


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


@pytest.mark.parametrize(
    ("fields", "name", "found"),
    [
        ({}, "batch", (False, False, False)),
        ({"words": "slurm-rl:class=due"}, "due", (True, False, True)),
        # a short limit stays what makes it interactive, for users who have overrun theirs
        ({"words": "slurm-rl:class=due", "time_limit": 900.0}, "due", (True, True, False)),
        ({"words": "slurm-rl:class=nightly", "time_limit": 900.0}, "nightly", (False,) * 3),
        ({"words": "slurm-rl:class=ours"}, "batch", (False, False, False)),
        ({"words": "slurm-rl:class=interactive"}, "batch", (False, False, False)),
        ({"words": "slurm-rl:deadline=2027-01-02T12:00+00:00"}, "due", (True, False, True)),
        ({"words": "slurm-rl:deadline=2027-01-03T00:01+00:00"}, "batch", (False, False, False)),
        ({"words": "slurm-rl:deadline=2026-12-31T12:00+00:00"}, "batch", (False, False, False)),
    ],
)
def test_a_user_chooses_among_the_classes_that_the_site_allows(fields, name, found):
    since = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    counts = CHOSEN.job_class(job(**fields), since)
    assert list(CHOSEN.classes)[counts.number] == name
    assert counts[1:4] == found
    own = "2027-01-02T12:00" in fields.get("words", "")
    assert counts.allowed == 36 * 3600.0 if own else math.isnan(counts.allowed)


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
