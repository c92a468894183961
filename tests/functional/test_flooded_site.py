"""An administrator's case: what-if and evaluate say the same of each account, and it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.shares.flooded_site import FLOODS, SHARES, answer, asked_both, write_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flooded")
    write_site(folder, days=4.0)
    return folder


def test_both_commands_agree_to_the_digit_and_a_small_influence_changes_little(site: Path) -> None:
    now, ours, beside = asked_both(site, 24.0)
    assert ours == beside
    assert now.keys() == set(SHARES)
    others = [name for name in SHARES if name != FLOODS]
    assert all(ours[name].mean_wait < 0.1 * ours[FLOODS].mean_wait for name in others)
    assert min(ours[name].ratio for name in others) > 0.95


def waits_without_shares(site: Path) -> dict[str, float]:
    """Mean wait of each account under our order alone, for a site that wants no shares in it."""
    (site / "no-shares.toml").write_text("[hook]\ninfluence_hours = 0\n[goals]\nshares = 0\n")
    words = ("--cluster", ".", "--account-of", "accounts.csv", "--config", "no-shares.toml")
    found = answer(site, "evaluate", "log.swf", *words, "--policy", "default", "--json")
    accounts = found["policies"]["default"]["accounts"]
    return {name: accounts[name]["mean_wait"] for name in SHARES}


def test_our_order_alone_keeps_shares_unless_the_site_wants_none(site: Path) -> None:
    now, ours, beside = asked_both(site, 0.0)
    assert ours == beside
    assert ours["physics"].mean_wait < 1.5 * now["physics"].mean_wait
    assert ours["physics"].mean_wait < 0.1 * ours[FLOODS].mean_wait
    without = waits_without_shares(site)
    assert without["physics"] > 3.0 * now["physics"].mean_wait
    assert without[FLOODS] < now[FLOODS].mean_wait
