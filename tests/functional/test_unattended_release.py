"""`release --unattended`, which systemd runs after the daemon and every minute."""

from __future__ import annotations

import socket

import pytest

from slurm_rl_plugin.cli import release
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from tests.functional.fake_site import FakeSite

#: Job -> the factor it carries; the state file holds the first two.
JOBS = {1: 500, 2: 700, 3: 0}
WORDS = ("release", "--unattended")
SILENT = (0, "", "")


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    for job, factor in JOBS.items():
        empty_site.wait(job, site=factor)
    StateFile(empty_site.state_file).write({1, 2})
    empty_site.configure("hook", mode="shadow", audit_file="")
    return empty_site


def are_kept(site: FakeSite) -> bool:
    return site.factors(*JOBS) == list(JOBS.values())


def are_taken_back(site: FakeSite) -> bool:
    return site.factors(*JOBS) == [0, 0, 0] and StateFile(site.state_file).read() == set()


def test_it_takes_back_what_nobody_looks_after(site: FakeSite) -> None:
    assert site.out(*WORDS).startswith("released ")
    assert are_taken_back(site)


@pytest.mark.parametrize("left", ["nothing", "no file", "a daemon"])
def test_it_says_and_asks_nothing_where_no_factor_is_left_to_it(
    site: FakeSite, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(release, "build_batch_system", lambda *words: asked.append("slurm"))
    if left == "a daemon":
        with only_daemon(site.state_file):
            assert site(*WORDS) == SILENT
    else:
        StateFile(site.state_file).write(set())
        assert site(*WORDS) == SILENT
    if left == "no file":
        site.state_file.unlink()
        assert site(*WORDS) == SILENT
    assert asked == []
    assert are_kept(site)


def test_a_state_file_that_cannot_be_trusted_counts_as_factors(site: FakeSite) -> None:
    site.state_file.write_text("{")
    assert site(*WORDS)[0] == 0
    assert are_taken_back(site)


def test_a_faulty_configuration_keeps_no_factor(site: FakeSite) -> None:
    """Keys that are right in themselves hold: the state file is the site's own."""
    site.configure("hook", max_writes="many")
    site.configure("reward", fairness=0.9)
    status, _, said = site(*WORDS)
    assert status == 0
    assert are_taken_back(site)
    lines = (site.folder / "site.toml").read_text().splitlines()
    places = [1 + lines.index(each) for each in ('max_writes = "many"', "fairness = 0.9")]
    expected = [f"site.toml:{place}" for place in places]
    assert [line.split(": ")[1] for line in said.splitlines()] == expected
    assert site(*WORDS) == SILENT  # not every minute again


def test_a_configuration_that_cannot_be_read_is_no_silent_failure(site: FakeSite) -> None:
    (site.folder / "site.toml").write_text("[hook\n")
    assert "it is not known what was written" in site.failing(*WORDS)
    assert are_kept(site)


@pytest.mark.parametrize(
    ("setting", "status"), [({"beside_controllers": True}, 0), ({"max_writes": "many"}, 1)]
)
def test_beside_a_controller_that_is_not_in_charge_factors_are_the_other_daemons(
    site: FakeSite, setting: dict[str, object], status: int
) -> None:
    """A fault may be in the very key that says that there are two daemons: never 0 then."""
    here = socket.gethostname().partition(".")[0]
    site.cluster.set(controllers=[["other", True], [here, True]])
    site.configure("hook", **setting)
    found, out, err = site(*WORDS)
    assert (found, out, "another host's controller" in err) == (status, "", status == 1)
    assert are_kept(site)
    assert StateFile(site.state_file).read() == {1, 2}


def test_without_slurm_it_fails_and_forgets_nothing(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert site(*WORDS)[0] == 1
    assert StateFile(site.state_file).read() == {1, 2}


def test_one_that_was_cut_short_before_its_second_look_is_done_again(site: FakeSite) -> None:
    """A write that got no answer may have come after the first look."""
    StateFile(site.state_file).write(set(), unanswered=True)
    assert site(*WORDS)[0] == 0
    assert are_taken_back(site)
    assert not StateFile(site.state_file).is_unanswered()
