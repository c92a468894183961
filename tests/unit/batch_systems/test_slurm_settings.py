"""What slurm.conf and sdiag tell, on answers of real releases and on those of special sites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    BUSY_THREADS,
    parse_load,
    parse_settings,
)
from slurm_rl_plugin.errors import BatchSystemError

RELEASES = sorted(
    path for path in Path(__file__).parents[2].glob("assets/slurm/*") if path.is_dir()
)


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def answers(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_settings_of_each_release(answers: Path) -> None:
    settings = parse_settings(answers.joinpath("config.txt").read_text())
    assert settings.release.startswith(answers.name)
    assert settings.points_an_hour == 1000 / 24
    assert settings.pass_interval == 1.0
    assert settings.harm is None
    assert settings.controllers == (("head", True),)
    assert "bf_continue" in settings.scheduler


def test_load_of_each_release(answers: Path) -> None:
    told = answers.joinpath("sdiag.txt").read_text()
    load = parse_load(told)
    assert load.struggles is None
    assert load.events[0] > load.events[1] > 0
    busy = re.sub(r"(Server thread count:\s+)\d+", rf"\g<1>{BUSY_THREADS + 1}", told)
    assert parse_load(busy).struggles is not None


def config(**lines: str) -> str:
    known = {"SLURM_VERSION": "25.05.1", "PriorityType": "priority/multifactor", **lines}
    return "\n".join(f"{key:<23} = {value}" for key, value in known.items())


@pytest.mark.parametrize(
    ("lines", "harm"),
    [
        ({}, None),
        ({"PriorityType": "priority/basic"}, "priority/basic ignores SiteFactor"),
        ({"PrioritySiteFactorPlugin": "site_factor/x"}, "site_factor/x overwrites every factor"),
        ({"PriorityType": "priority/other"}, "priority/other is not known to use"),
    ],
    ids=str,
)
def test_where_writing_would_do_nothing_it_is_said(lines: dict[str, str], harm: str | None) -> None:
    found = parse_settings(config(**lines)).harm
    assert found is None if harm is None else harm in str(found)


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [
        ("(null)", 30.0),
        ("bf_interval=120", 60.0),
        ("sched_interval=10,bf_continue", 10.0),
        ("SCHED_INTERVAL=-1,bf_interval=soon", 30.0),
    ],
)
def test_the_pace_of_slurms_own_passes(parameters: str, seconds: float) -> None:
    assert parse_settings(config(SchedulerParameters=parameters)).pass_interval == seconds


def test_age_without_a_weight_or_an_end_is_worth_nothing() -> None:
    assert parse_settings(config(PriorityMaxAge="7-00:00:00")).points_an_hour == 0.0
    assert parse_settings(config(PriorityWeightAge="1000")).points_an_hour == 0.0


def test_points_that_a_full_order_stands_for_are_those_of_age_shares_and_size() -> None:
    weights = {
        "PriorityWeightAge": "1000",
        "PriorityWeightFairShare": "5000",
        "PriorityWeightJobSize": "300",
        "PriorityWeightTRES": "CPU=20,GRES/gpu=0.5",
        "PriorityWeightQOS": "7000",
        "PriorityWeightPartition": "9",
        "PriorityWeightAssoc": "8",
    }
    assert parse_settings(config(**weights)).replaced_points == 6320.5
    assert parse_settings(config(PriorityWeightTRES="(null)")).replaced_points == 0.0
    assert parse_settings(config(PriorityWeightTRES="CPU=,Mem=9")).replaced_points == 9.0


def test_numbers_that_are_not_understood_are_no_reason_to_stop() -> None:
    odd = {"PriorityWeightAge": "many", "PriorityMaxAge": "ever", "PriorityWeightTRES": "CPU="}
    assert parse_settings(config(**odd)).points_an_hour == 0.0


@pytest.mark.parametrize(
    ("controllers", "acts"),
    [
        ("Slurmctld(primary) at head1 is UP\nSlurmctld(backup) at head2 is UP", "head1"),
        ("Slurmctld(primary) at head1 is DOWN\nSlurmctld(backup) at head2 is UP", "head2"),
        ("Slurmctld(primary) at head1.site is DOWN\nSlurmctld(backup1) at head2 is UP", "head2"),
    ],
)
def test_beside_controllers_only_the_one_in_charge_acts(controllers: str, acts: str) -> None:
    settings = parse_settings(config() + "\n" + controllers)
    assert [host for host in ("head1", "head2") if settings.in_charge(host)] == [acts]
    assert settings.in_charge(f"{acts}.site.org")
    assert settings.in_charge("login")


def test_who_is_in_charge_cannot_be_told_where_every_ping_was_too_slow() -> None:
    down = "Slurmctld(primary) at head1 is DOWN\nSlurmctld(backup) at head2 is DOWN"
    settings = parse_settings(config() + "\n" + down)
    assert [settings.in_charge(host) for host in ("head1", "head2")] == [None, None]
    assert settings.in_charge("login")


@pytest.mark.parametrize("text", ["", "nothing = here"])
def test_settings_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(BatchSystemError, match="scontrol show config answered"):
        parse_settings(text)


def test_a_load_of_another_form_is_refused() -> None:
    with pytest.raises(BatchSystemError, match=r"sdiag answered.*Server thread count"):
        parse_load("Jobs submitted: 5")
