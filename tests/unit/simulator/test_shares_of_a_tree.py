"""Shares of a tree of accounts, as sshare normalises them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import read_cluster
from slurm_rl_plugin.simulator.workloads.log_shares import shares_at
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines

_SACCTMGR = """add account science Fairshare=30
add account arts Fairshare=10
add account physics Fairshare=2 Parent=science
add account optics Fairshare=1 Parent=science
"""


def test_a_share_is_that_of_the_siblings_times_that_above(tmp_path: Path) -> None:
    machine_of_lines(tmp_path, NODES, PARTITION, sacctmgr_script=_SACCTMGR)
    cluster = read_cluster(tmp_path)
    found = shares_at(cluster.machine, ["physics", "optics", "arts"])
    assert found == pytest.approx({"physics": 0.5, "optics": 0.25, "arts": 0.25})
    more = shares_at(changed(cluster, "account arts Fairshare=30").machine, ["physics", "arts"])
    assert more == pytest.approx({"physics": 0.4, "arts": 0.6})


def test_an_account_that_nobody_knows_leaves_shares_to_the_log(tmp_path: Path) -> None:
    machine_of_lines(tmp_path, NODES, PARTITION, sacctmgr_script=_SACCTMGR)
    machine = read_cluster(tmp_path).machine
    assert shares_at(machine, ["physics", "chemistry"]) is None
    assert shares_at(machine, []) is None
