"""The committee's page: its words, who loses, and names that users chose."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from slurm_rl_plugin.domain.switchback import Declaration, drawn_blocks
from slurm_rl_plugin.evaluation.committee_page import (
    change_text,
    counts_sentence,
    experiment_page,
    hours_text,
    jobs_of,
    longest_sentence,
    page_html,
    resource_word,
    sentence,
    short_name,
)
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, NO_DIFFERENCE, WORSE
from slurm_rl_plugin.papers.switchback.clusters import preferring_short
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.effects import ALL
from slurm_rl_plugin.what_if.group_hours import GroupHours, HoursWaited
from slurm_rl_plugin.what_if.switchback.block_costs import ReplayedCluster, costs_of_blocks
from slurm_rl_plugin.what_if.switchback.trial import Trial, floors_of
from tests.functional.typed import rows_of
from tests.unit.what_if.test_switchback_blocks import declared

EVIL = '<script>alert("$1^2")</script>'
PHYSICS = GroupHours(
    by="account",
    group="physics",
    jobs=200,
    before=3.2,
    after=2.1,
    longest_before=20.0,
    longest_after=30.0,
    ratio=2.1 / 3.2,
    ratio_ci95=(0.55, 0.8),
    word=BETTER,
)
LOSER = replace(
    PHYSICS, group=EVIL, after=4.8, longest_after=20.0, ratio=1.5, ratio_ci95=(1.2, 1.8), word=WORSE
)
EVERYBODY = replace(PHYSICS, by=ALL, group=ALL)


def waited(*groups: GroupHours, each: bool = True, has_intervals: bool = True) -> HoursWaited:
    return HoursWaited(
        everybody=EVERYBODY,
        groups=groups,
        each=each,
        stretches=12,
        unit="weeks",
        has_intervals=has_intervals,
    )


def page_of(hours: HoursWaited, model: str = "ours") -> str:
    texts = dict.fromkeys(("jobs", "days", "report", "not_known"), "1")
    return page_html(hours, "committee_replay.html", model=model, notices=(), **texts)


class Elements(HTMLParser):
    """The elements of a page, and whether each that opens is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    assert found.open == []
    return found


def part(page: str, kind: str) -> str:
    (found,) = re.findall(rf'<section class="{kind}">(.*?)</section>', page, re.DOTALL)
    return str(found)


def test_the_sentence_of_a_group() -> None:
    assert sentence(PHYSICS, each=True) == (
        "Jobs of account physics waited 3.2 hours each before and 2.1 hours with our order: "
        "34 % less (95 %: 20 to 45 % less)."
    )
    assert "waited 3.2 hours together in every hour before" in sentence(PHYSICS, each=False)
    assert longest_sentence(EVERYBODY) == (
        "The longest wait was 20.0 hours before and 30.0 hours with our order."
    )


@pytest.mark.parametrize(
    ("ratio", "ci95", "text"),
    [
        (1.5, (1.2, 1.8), "50 % more (95 %: 20 to 80 % more)"),
        (1.5, None, "50 % more"),
        (1.1, (0.9, 1.3), "10 % more (95 %: 10 % less to 30 % more)"),
        (1.001, (1.0, 1.3), "as before (95 %: as before to 30 % more)"),
        (12.0, (8.0, 20.0), "12 times as much (95 %: 700 % more to 20 times as much)"),
        (12.0, (11.0, 20.0), "12 times as much (95 %: 11 to 20 times as much)"),
        (None, None, "before they did not wait"),
    ],
)
def test_changes(ratio: float | None, ci95: tuple[float, float] | None, text: str) -> None:
    assert change_text(replace(PHYSICS, ratio=ratio, ratio_ci95=ci95)) == text


@rows_of("groups of jobs")
def test_what_groups_are_called(words: str, said: str) -> None:
    by, _, group = words.partition(": ")
    assert jobs_of(replace(PHYSICS, by=by, group=group)) == said


def test_spans_and_names() -> None:
    spans = [hours_text(each) for each in (0.01, 0.5, 3.21, 240.0)]
    assert spans == ["36 seconds", "30 minutes", "3.2 hours", "10.0 days"]
    assert resource_word("memory") == "memory"
    assert short_name("a\nb") == "a?b"
    assert short_name("x" * 20 + "y" * 20, 9) == "xxxx…yyyy"
    long = replace(EVERYBODY, longest_before=98.0, longest_after=240.0)
    assert "4.1 days before and 10.0 days" in longest_sentence(long)


def test_counts_of_groups() -> None:
    rows = [PHYSICS, replace(PHYSICS, group="b"), LOSER, replace(PHYSICS, word=NO_DIFFERENCE)]
    assert counts_sentence(waited(*rows)) == (
        "Of 4 groups of jobs, 2 wait less and 1 waits longer; none is inconclusive."
    )
    assert counts_sentence(waited()) == "No group has enough jobs for a verdict."


def test_who_loses_is_told_with_the_name_escaped() -> None:
    page = page_of(waited(PHYSICS, LOSER), model=EVIL)
    assert "&lt;script&gt;" in part(page, "loses")
    assert "50 % more" in part(page, "loses")
    # a longest wait that grows is a loss too, of who else gains
    assert "account physics: the longest wait was 20.0 hours before" in part(page, "loses")
    assert "account physics waited" in part(page, "gains")
    found = elements(page)
    assert "script" not in found.names
    assert "table" in found.names
    assert len(found.ids) == len(set(found.ids))
    assert "http" not in page
    assert "$1^2" in page  # no formula


def test_who_loses_is_never_empty() -> None:
    page = page_of(waited(replace(PHYSICS, longest_after=20.0)))
    assert part(page, "loses").count("<li>") == 1
    assert "No group beyond chance" in part(page, "loses")
    few = page_of(waited(has_intervals=False))
    assert "12 weeks are too few" in part(few, "loses")
    assert "all is inconclusive" in few


def test_who_may_lose_is_told_as_what_may_be_chance() -> None:
    page = page_of(waited(replace(LOSER, group="biology", word=INCONCLUSIVE)))
    assert "No group beyond chance" in part(page, "loses")
    assert "may be chance" in part(page, "loses")
    assert "account biology waited 3.2 hours each before and 4.8" in part(page, "loses")


def test_many_losers_are_counted() -> None:
    page = page_of(waited(*(replace(LOSER, group=str(each)) for each in range(9))))
    assert "So did 5 more groups, by less." in part(page, "loses")
    assert "the 8 with most jobs; 1 more are judged" in page


@pytest.fixture(scope="module")
def experiment() -> tuple[Declaration, ReplayedCluster]:
    blocks = drawn_blocks(14 * DAY, 4, (6, 12), seed=5)
    trial = preferring_short(3, 4, 4.0)
    return declared(blocks), trial.replayed(trial.starts(blocks))


def test_the_page_of_an_experiment(experiment: tuple[Declaration, ReplayedCluster]) -> None:
    declared, cluster = experiment
    costs = costs_of_blocks(cluster, declared.blocks)
    found = Trial(declared=declared, floors=floors_of(costs.measured), costs=costs).findings()
    page = experiment_page(
        declared,
        cluster,
        found,
        ["physics", EVIL, "biology", "chemistry"],
        "Nothing is sure yet.",
        now=declared.end,
    )
    assert "Nothing is sure yet." in page
    assert "held the queue in turns" in page
    assert "this one decides" in page
    assert "in the same hours" in page
    assert "script" not in elements(page).names
    assert "Who loses" in page
    assert "http" not in page
