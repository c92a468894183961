"""The record of a site's own limit: kept twice, and heeded only for what the site named."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kept_record import KeptRecord
from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.errors import ConfigurationError
from tests.fakes.fake_cluster import FakeCluster

BATCH = LimitKeys(mechanism="qos", qos="batch", is_known=True)
#: No number of processors.
INFINITE = '{"version": 1, "mechanism": "qos", "names": ["batch"], "own": 7, "ours": [1e999]}'
OFF, UNKNOWN = LimitKeys(is_known=True), LimitKeys()


class Site:
    """A fake cluster whose batch jobs may use 6 processors together by us, and 7 by the site."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.file = FakeCluster(folder), folder / "state.json.limits"
        qos = self.cluster.state["qos"]
        self.cluster.set(qos={**qos, "batch": {**qos["batch"], "cpu": 7, "live": 7}})
        self.before = self.adapter(BATCH)
        self.before.limit_batch({"cpus": 6})

    def adapter(self, limit: LimitKeys) -> SlurmCommands:
        return SlurmCommands(self.cluster.adapter_settings(limit=limit, limits_file=self.file))

    @property
    def cpu(self) -> int | None:
        found: int | None = self.cluster.state["qos"]["batch"]["cpu"]
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 9}', INFINITE])
def test_a_broken_file_loses_nothing(site: Site, content: str) -> None:
    site.file.write_text(content)
    site.before.limit_batch(None)
    assert site.cpu == 7
    assert not site.file.exists()
    assert not KeptRecord(site.file).copy.exists()


def test_where_both_are_broken_the_command_that_mends_it_is_named(site: Site) -> None:
    site.file.write_text("{")
    KeptRecord(site.file).copy.write_text("{")
    with pytest.raises(ConfigurationError, match="sacctmgr -i modify qos NAME set GrpTRES=cpu=N"):
        site.before.limit_batch(None)
    assert site.cpu == 6


def test_a_copy_alone_says_nothing(site: Site) -> None:
    """As an administrator leaves it who has removed the file."""
    site.file.unlink()
    site.before.limit_batch(None)
    assert site.cpu == 6


def test_a_limit_above_the_sites_own_is_none_that_we_set(site: Site) -> None:
    document = json.loads(site.file.read_text())
    for path in (site.file, KeptRecord(site.file).copy):
        path.write_text(json.dumps({**document, "own": 1}))
    with pytest.raises(ConfigurationError, match="ours is not below"):
        site.before.limit_batch(None)
    assert site.cpu == 6


def test_what_the_site_does_not_name_is_not_touched(site: Site) -> None:
    later = site.adapter(OFF)
    with pytest.raises(ConfigurationError, match="names batch, which is not what"):
        later.limit_batch(None)
    assert (site.cpu, site.file.exists()) == (6, True)


def test_a_reload_knows_what_was_named_before(site: Site) -> None:
    later = site.adapter(OFF)
    later.go_on_from(site.before)
    later.limit_batch(None)
    assert (site.cpu, site.file.exists()) == (7, False)


def test_a_faulty_configuration_keeps_no_limit(site: Site) -> None:
    site.adapter(UNKNOWN).limit_batch(None)
    assert site.cpu == 7


def test_both_are_for_the_group_at_most(site: Site) -> None:
    for path in (site.file, KeptRecord(site.file).copy):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o027
