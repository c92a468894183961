"""A limit on batch jobs in Slurm: set, read back, the site's own kept and restored."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin import errors
from slurm_rl_plugin.batch_systems.kept_record import KeptRecord
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.batch_systems.slurm.batch_limit import OutstandingLimit, parse_live, record_of
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
)
from slurm_rl_plugin.whole_file import beside
from tests.case_files import rows
from tests.fakes.fake_cluster import FakeCluster

BY_QOS = LimitKeys(mechanism="qos", qos="batch")
BY_LICENSES = LimitKeys(mechanism="licenses", license="slot", reservation="slurm-rl-reserve")


class Site:
    """A fake cluster and its adapter."""

    def __init__(self, folder: Path) -> None:
        self.cluster = FakeCluster(folder)
        self.file = folder / "state.json.limits"
        self.slurm = self.adapter(BY_QOS)

    def adapter(self, settings: LimitKeys) -> SlurmCommands:
        return self.cluster.adapter(limit=settings, limits_file=self.file)

    @property
    def cpu(self) -> int | None:
        """GrpTRES=cpu of QOS batch, as the database has it."""
        found: int | None = self.cluster.state["qos"]["batch"]["cpu"]
        return found

    @property
    def writes(self) -> int:
        return int(self.cluster.state.get("sacctmgr_writes", 0))

    @property
    def kept(self) -> dict[str, Any] | None:
        return json.loads(self.file.read_text()) if self.file.exists() else None

    def set_by_hand(self, cpu: int | None) -> None:
        qos = self.cluster.state["qos"]
        qos["batch"] = {**qos["batch"], "cpu": cpu, "live": cpu}
        self.cluster.set(qos=qos)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("enforced", ["", "all", "safe,qos", "associations,limits,qos,safe"])
def test_only_differences_are_written_and_the_end_is_as_the_beginning(
    site: Site, enforced: str
) -> None:
    if enforced:
        site.cluster.set(settings={"AccountingStorageEnforce": enforced})
    site.slurm.limit_batch({"cpus": 6})
    site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.writes) == (6, 1)
    assert site.kept == {
        "version": 1,
        "mechanism": "qos",
        "names": ["batch"],
        "own": None,
        "ours": [6],
        "confirmed": True,
    }
    site.slurm.limit_batch({"cpus": 5})
    assert (site.cpu, site.writes) == (5, 2)
    site.slurm.limit_batch(None)
    site.slurm.limit_batch(None)
    assert (site.cpu, site.writes, site.kept) == (None, 3, None)


def test_a_limit_of_the_sites_own_is_never_raised_and_given_back(site: Site) -> None:
    site.set_by_hand(4)
    site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.writes, site.kept) == (4, 0, None)
    site.slurm.limit_batch({"cpus": 3})
    assert (site.cpu, site.kept and site.kept["own"]) == (3, 4)
    site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.kept) == (4, None)
    site.slurm.limit_batch({"cpus": 2})
    site.slurm.limit_batch(None)
    assert (site.cpu, site.kept) == (4, None)


def test_what_an_administrator_sets_meanwhile_is_the_sites_own(site: Site) -> None:
    site.slurm.limit_batch({"cpus": 6})
    site.set_by_hand(5)
    site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.kept) == (5, None)
    site.slurm.limit_batch({"cpus": 3})
    site.set_by_hand(7)
    site.slurm.limit_batch(None)
    assert (site.cpu, site.kept) == (7, None)
    site.slurm.limit_batch({"cpus": 6})
    site.set_by_hand(None)
    site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.kept and site.kept["own"]) == (6, None)


@pytest.mark.parametrize("own", [None, 7])
@pytest.mark.parametrize("written", [True, False])
def test_who_comes_after_a_kill_gives_back_what_was_there(
    site: Site, own: int | None, written: bool
) -> None:
    """Killed between the file and the limit, or between the limit and its confirmation."""
    ours = ((5,), (6,))
    standing = OutstandingLimit(mechanism="qos", names=("batch",), own=(own,), ours=ours)
    KeptRecord(site.file, "").write(record_of(standing))
    site.set_by_hand(6 if written else own)
    site.adapter(LimitKeys()).limit_batch(None)
    assert (site.cpu, site.kept) == (own, None)


def test_a_limit_that_slurmctld_was_not_told_of_is_still_taken_from_the_database(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_rl_plugin.batch_systems.slurm.batch_limit._SHOWN_WITHIN", 0.2)
    site.cluster.set(slurmctld_misses_it=True)
    with pytest.raises(BatchSystemUnavailable, match="does not show the limit 6 within"):
        site.slurm.limit_batch({"cpus": 6})
    assert (site.cpu, site.kept and site.kept["ours"]) == (6, [6])
    site.slurm.limit_batch(None)
    assert (site.cpu, site.kept) == (None, None)


NO_DATABASE = "fail:sacctmgr: error: Sending PersistInit msg: Connection refused"
DENIED, DATABASE_DOWN = {"modes": {"sacctmgr": "deny"}}, {"modes": {"sacctmgr": NO_DATABASE}}
CONTROLLER_DOWN = {"modes": {"scontrol": "down"}}
NOTHING_ENFORCED = {"settings": {"AccountingStorageEnforce": "associations"}}


@rows("slurm", "limits", "harm kind words")
def test_what_cannot_be_is_said_and_limits_nothing(
    site: Site, harm: dict[str, Any], kind: str, words: str
) -> None:
    site.cluster.set(**harm)
    with pytest.raises(getattr(errors, kind), match=words):
        site.slurm.limit_batch({"cpus": 6})
    assert site.cluster.state["qos"].get("batch", {}).get("cpu") is None
    site.cluster.set(modes={})
    assert site.kept is None


def test_a_refused_change_leaves_the_limit_of_before_and_what_is_remembered(site: Site) -> None:
    site.slurm.limit_batch({"cpus": 6})
    kept = site.kept
    site.cluster.set(**DENIED)
    with pytest.raises(ChangeRejected):
        site.slurm.limit_batch({"cpus": 5})
    assert (site.cpu, site.kept) == (6, kept)


def test_a_change_that_a_killed_daemon_had_begun_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed one's sacctmgr writes while we take the limit back."""
    begun = OutstandingLimit(mechanism="qos", names=("batch",), ours=((6,),))
    KeptRecord(site.file, "").write(record_of(begun))
    monkeypatch.setattr(
        "slurm_rl_plugin.batch_systems.slurm.batch_limit.time.sleep",
        lambda seconds: site.set_by_hand(6) if seconds == 1.0 and not site.writes else None,
    )
    site.slurm.limit_batch(None)
    assert (site.cpu, site.writes, site.kept) == (None, 1, None)


def test_a_limit_goes_once_the_site_enforces_none(site: Site) -> None:
    site.slurm.limit_batch({"cpus": 6})
    site.cluster.set(**NOTHING_ENFORCED)
    with pytest.raises(ChangeRejected):
        site.slurm.limit_batch({"cpus": 5})
    assert (site.cpu, site.kept) == (None, None)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "own": null, "ours": 3}']
)
def test_a_broken_file_stops_us_and_names_the_mend(site: Site, content: str) -> None:
    site.file.write_text(content)
    for processors in (None, 6):
        with pytest.raises(ConfigurationError, match=r"docs/reserve\.md"):
            site.slurm.limit_batch({"cpus": processors})
    assert site.cpu is None
    assert site.file.read_text() == content
    site.file.unlink()
    site.file.mkdir()  # there is nothing to remember in
    with pytest.raises(ConfigurationError, match=r"cannot be (read|written)"):
        site.slurm.limit_batch({"cpus": 6})
    assert site.cpu is None


def test_a_file_of_another_batch_system_is_left_alone(site: Site) -> None:
    of_pbs = OutstandingLimit(mechanism="max_run_res", names=("workq",))
    KeptRecord(site.file, "").write(record_of(of_pbs))
    with pytest.raises(ConfigurationError, match=r"max_run_res.*not for Slurm"):
        site.slurm.limit_batch(None)
    assert site.kept


def test_another_qos_in_the_configuration_frees_the_one_before(site: Site) -> None:
    site.slurm.limit_batch({"cpus": 6})
    site.adapter(LimitKeys(mechanism="qos", qos="normal")).limit_batch({"cpus": 5})
    assert site.cpu is None
    assert site.cluster.state["qos"]["normal"]["cpu"] == 5


@pytest.mark.parametrize("settings", [LimitKeys(), LimitKeys(mechanism="qos", qos="normal")])
def test_a_qos_that_the_site_removed_took_our_limit_with_it(
    site: Site, settings: LimitKeys
) -> None:
    site.slurm.limit_batch({"cpus": 6})
    qos = site.cluster.state["qos"]
    site.cluster.set(qos={"normal": qos["normal"]})
    later = site.adapter(settings)
    later.limit_batch({"cpus": 5} if settings.mechanism else None)
    assert (site.kept or {}).get("names") == (["normal"] if settings.mechanism else None)
    later.limit_batch(None)
    assert site.kept is None


def test_an_answer_that_fails_is_no_removed_qos(site: Site) -> None:
    site.slurm.limit_batch({"cpus": 6})
    kept = site.kept
    for harm in (DATABASE_DOWN, CONTROLLER_DOWN):
        site.cluster.set(**harm)
        with pytest.raises(BatchSystemUnavailable):
            site.slurm.limit_batch(None)
        site.cluster.set(modes={})
        assert site.kept == kept


def test_mechanisms_that_are_not_slurms_are_refused(site: Site) -> None:
    for settings in (LimitKeys(), LimitKeys(mechanism="max_run_res")):
        with pytest.raises(ConfigurationError, match=r"is not for Slurm.*mechanism"):
            site.adapter(settings).limit_batch({"cpus": 6})


class TestLicenses:
    def test_a_reservation_holds_what_batch_jobs_are_not_to_have(self, site: Site) -> None:
        slurm = site.adapter(BY_LICENSES)
        held = lambda: site.cluster.state["reservations"]  # noqa: E731
        slurm.limit_batch({"cpus": 6})
        assert {name: each["licenses"] for name, each in held().items()} == {
            "slurm-rl-reserve": "slot:2"
        }
        calls = site.cluster.state.get("scontrol_calls", 0)
        slurm.limit_batch({"cpus": 6})
        slurm.limit_batch({"cpus": 5})
        assert held()["slurm-rl-reserve"]["licenses"] == "slot:3"
        slurm.limit_batch({"cpus": 8})  # all of them
        assert (held(), site.kept) == ({}, None)
        slurm.limit_batch({"cpus": 2})
        site.adapter(LimitKeys()).limit_batch(None)
        assert (held(), site.kept) == ({}, None)
        assert site.cluster.state.get("scontrol_calls", 0) == calls  # no job was written
        assert site.writes == 0

    @pytest.mark.parametrize("processors", [5, 6, 7])
    def test_a_reservation_of_an_earlier_run_is_ours_by_its_name(
        self, site: Site, processors: int
    ) -> None:
        left = {"slurm-rl-reserve": {"nodes": 0, "licenses": "slot:2"}}
        site.cluster.set(reservations=left)
        slurm = site.adapter(BY_LICENSES)
        slurm.limit_batch({"cpus": processors})
        assert (
            site.cluster.state["reservations"]["slurm-rl-reserve"]["licenses"]
            == f"slot:{8 - processors}"
        )
        slurm.limit_batch(None)
        assert site.cluster.state["reservations"] == {}

    @pytest.mark.parametrize("of_the_site", [{"nodes": 2}, {"licenses": "matlab:2"}])
    def test_a_reservation_of_the_sites_is_not_touched(
        self, site: Site, of_the_site: dict[str, Any]
    ) -> None:
        theirs = {"slurm-rl-reserve": {"nodes": 0, "licenses": "slot:2", **of_the_site}}
        site.cluster.set(reservations=theirs)
        with pytest.raises(ChangeRejected, match="is not the daemon's"):
            site.adapter(BY_LICENSES).limit_batch({"cpus": 5})
        assert site.cluster.state["reservations"] == theirs

    def test_the_right_and_the_licences_must_be_there(self, site: Site) -> None:
        site.cluster.set(licenses={"matlab": 2})
        with pytest.raises(ChangeRejected, match=r"add Licenses=slot:N to slurm\.conf"):
            site.adapter(BY_LICENSES).limit_batch({"cpus": 5})
        site.cluster.set(licenses={"slot": 8})
        site.cluster.break_command("scontrol", "deny")
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            site.adapter(BY_LICENSES).limit_batch({"cpus": 5})

    def test_a_check_of_the_right_that_slurm_does_not_answer_fails(self, site: Site) -> None:
        site.cluster.break_command("scontrol", "down")
        checks = site.adapter(BY_LICENSES).limit_checks(writes=True)
        assert {each.name: each.result for each in checks}["reserve right"] == "fail"


def test_an_answer_of_another_form_is_no_limit() -> None:
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_live("QOS=batch(2) GrpTRES=", "batch", ("cpus",))
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_live("what?", "batch", ("cpus",))
    told = "QOS=Batch(2) GrpTRES=cpu=7(3),mem=N(0),gres/gpu=2(1) Grp="
    assert parse_live(told, "batch", ("cpus", "gpus", "memory")) == (7, 2, None)
    with pytest.raises(ChangeRejected, match="counts no gres/gpu: add it to AccountingStorageTRES"):
        parse_live("QOS=Batch(2) GrpTRES=cpu=7(3),mem=N(0) Grp=", "batch", ("cpus", "gpus"))


BY_ANY = LimitKeys(mechanism="qos", qos="batch", resources=("gpus", "memory"))


def test_every_resource_is_limited_and_given_back(site: Site) -> None:
    qos = site.cluster.state["qos"]
    qos["batch"]["tres"] = {"mem": "3000"}
    site.cluster.set(tres=["mem", "gres/gpu"], qos=qos)
    tres = lambda: site.cluster.state["qos"]["batch"].get("tres")  # noqa: E731
    slurm = site.adapter(BY_ANY)
    slurm.limit_batch({"cpus": 6, "gpus": 2, "memory": 2048})
    assert (site.cpu, tres()) == (6, {"mem": "2048", "gres/gpu": "2"})
    assert (site.kept["version"], site.kept["resources"]) == (2, ["cpus", "gpus", "memory"])
    assert (site.kept["own"], site.kept["ours"]) == ([None, None, 3000], [[6, 2, 2048]])
    slurm.limit_batch({"cpus": 6, "gpus": 2, "memory": 2048})
    assert site.writes == 1
    slurm.limit_batch({"gpus": 1, "memory": 9000})  # never above the site's own
    assert (site.cpu, tres()) == (None, {"mem": "3000", "gres/gpu": "1"})
    slurm.limit_batch(None)
    assert (site.cpu, tres(), site.kept) == (None, {"mem": "3000", "gres/gpu": "-1"}, None)


def test_a_resource_that_is_limited_no_longer_is_given_back(site: Site) -> None:
    """By an adapter of another configuration: after a reload, or by `release`."""
    site.cluster.set(tres=["mem", "gres/gpu"])
    site.adapter(BY_ANY).limit_batch({"cpus": 6, "gpus": 2})
    site.slurm.limit_batch({"cpus": 6})
    tres = site.cluster.state["qos"]["batch"]["tres"]
    assert (site.cpu, tres["gres/gpu"]) == (6, "-1")
    assert site.kept["version"] == 1
    site.adapter(BY_ANY).limit_batch({"cpus": 5, "gpus": 1})
    site.adapter(LimitKeys()).limit_batch(None)
    tres = site.cluster.state["qos"]["batch"]["tres"]
    assert (site.cpu, tres["gres/gpu"], site.kept) == (None, "-1", None)


@pytest.mark.parametrize(
    "change",
    [
        {"resources": ["cpus", "licences"]},
        {"resources": []},
        {"own": [1, None]},
        {"own": [1]},
        {"ours": [[6]]},
        {"version": 3},
    ],
)
def test_a_record_of_resources_that_cannot_be_changes_nothing(
    site: Site, change: dict[str, Any]
) -> None:
    site.cluster.set(tres=["mem", "gres/gpu"])
    slurm = site.adapter(LimitKeys(mechanism="qos", qos="batch", resources=("gpus",)))
    slurm.limit_batch({"cpus": 6, "gpus": 2})
    for path in (site.file, beside(site.file, "copy")):
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        slurm.limit_batch(None)
    assert site.cpu == 6


BATCH = LimitKeys(mechanism="qos", qos="batch", is_known=True)
#: No number of processors.
INFINITE = '{"version": 1, "mechanism": "qos", "names": ["batch"], "own": 7, "ours": [1e999]}'
OFF = LimitKeys(is_known=True)


class LimitedSite(Site):
    """A fake cluster whose batch jobs may use 6 processors together by us, and 7 by the site."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.set_by_hand(7)
        self.before = self.adapter(BATCH)
        self.before.limit_batch({"cpus": 6})


@pytest.fixture
def limited(tmp_path: Path) -> LimitedSite:
    return LimitedSite(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 9}', INFINITE])
def test_a_broken_file_loses_nothing(limited: LimitedSite, content: str) -> None:
    limited.file.write_text(content)
    limited.before.limit_batch(None)
    assert limited.cpu == 7
    assert not limited.file.exists()
    assert not beside(limited.file, "copy").exists()


def test_where_both_are_broken_the_command_that_mends_it_is_named(limited: LimitedSite) -> None:
    limited.file.write_text("{")
    beside(limited.file, "copy").write_text("{")
    with pytest.raises(ConfigurationError, match="sacctmgr -i modify qos NAME set GrpTRES=cpu=N"):
        limited.before.limit_batch(None)
    assert limited.cpu == 6


def test_a_copy_alone_says_nothing(limited: LimitedSite) -> None:
    """As an administrator leaves it who has removed the file."""
    limited.file.unlink()
    limited.before.limit_batch(None)
    assert limited.cpu == 6


def test_a_limit_above_the_sites_own_is_none_that_we_set(limited: LimitedSite) -> None:
    document = json.loads(limited.file.read_text())
    for path in (limited.file, beside(limited.file, "copy")):
        path.write_text(json.dumps({**document, "own": 1}))
    with pytest.raises(ConfigurationError, match="our limit is not below"):
        limited.before.limit_batch(None)
    assert limited.cpu == 6


def test_a_reload_knows_what_was_named_before(limited: LimitedSite) -> None:
    later = limited.adapter(OFF)
    later.go_on_from(limited.before)
    later.limit_batch(None)
    assert (limited.cpu, limited.file.exists()) == (7, False)


def test_both_are_for_the_group_at_most(limited: LimitedSite) -> None:
    for path in (limited.file, beside(limited.file, "copy")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o027
