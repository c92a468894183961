"""An administrator's case: what-if and evaluate say the same of each account, and it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.shares.flooded_site import FLOODS, SHARES, asked_both, write_site


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


def test_our_order_alone_takes_shares_away(site: Path) -> None:
    now, ours, beside = asked_both(site, 0.0)
    assert ours == beside
    wait = {name: (now[name].mean_wait, ours[name].mean_wait) for name in ("physics", FLOODS)}
    assert wait["physics"][1] > 3.0 * wait["physics"][0]
    assert wait[FLOODS][1] < wait[FLOODS][0]
