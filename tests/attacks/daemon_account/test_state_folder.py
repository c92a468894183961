"""An attacker with the daemon's account, against root who runs our verbs, and against the site."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.another_user import DAEMON, as_user, needs_root
from tests.attacks.head_node import HeadNode

pytestmark = needs_root

#: Verbs that root may type.
VERBS = (("release",), ("release", "--unattended"))


@pytest.fixture(autouse=True)
def treasure(head_node: HeadNode) -> Path:
    """A file of root's that no other user may read or write."""
    head_node.configured()
    path = head_node.folder / "shadow"
    path.write_text("root's own")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("words", VERBS)
def test_a_link_at_a_temporary_name_leads_root_nowhere(
    head_node: HeadNode, treasure: Path, words: tuple[str, ...]
) -> None:
    def release() -> dict[str, Any]:
        for name in ("state.json", "state.json.limits"):
            link = head_node.state / f".{name}.{os.getpid()}.part"  # as it was named once
            link.symlink_to(treasure)
            os.chown(link, DAEMON, DAEMON, follow_symlinks=False)
        return head_node.verb(*words)

    found = as_user(0, release)
    assert treasure.read_text() == "root's own", found
    assert (found["code"], head_node.factors) == (0, [0, 0, 0])


@pytest.mark.parametrize("words", VERBS)
def test_a_link_at_the_lock_makes_root_make_nothing(
    head_node: HeadNode, treasure: Path, words: tuple[str, ...]
) -> None:
    nologin = head_node.folder / "nologin"

    def plant() -> None:
        for lock in head_node.locks:
            lock.symlink_to(nologin)

    as_user(DAEMON, plant)
    found = as_user(0, lambda: head_node.verb(*words))
    assert not nologin.exists(), found
    assert found["code"] != 0 or head_node.factors == [0, 0, 0]


@pytest.mark.parametrize("words", VERBS)
def test_what_root_leaves_there_is_the_daemons(head_node: HeadNode, words: tuple[str, ...]) -> None:
    """Else the daemon could not go on, and root has heeded what is not its own."""
    assert as_user(0, lambda: head_node.verb(*words))["code"] == 0
    assert {path.lstat().st_uid for path in head_node.state.iterdir()} == {DAEMON}
    assert as_user(DAEMON, lambda: head_node.verb("run", "--once"))["code"] == 0


@pytest.mark.parametrize("words", [*VERBS, ("status",), ("disable", "--wait=0")])
@pytest.mark.parametrize("names", [("state.json",), ("state.json.limits",)])
def test_a_pipe_in_a_files_place_holds_no_verb_up(
    head_node: HeadNode, treasure: Path, words: tuple[str, ...], names: tuple[str, ...]
) -> None:

    def plant() -> None:
        for name in names:
            (head_node.state / name).unlink(missing_ok=True)
            os.mkfifo(head_node.state / name)

    def within_seconds() -> dict[str, Any]:
        signal.alarm(60)  # ends this child without an answer
        return head_node.verb(*words)

    as_user(DAEMON, plant)
    found = as_user(0, within_seconds)
    released = words[0] == "release" and head_node.factors == [0, 0, 0]
    assert found["code"] != 0 or released, found


def test_root_disables_as_root_and_heeds_the_folder_as_its_owner(
    head_node: HeadNode, treasure: Path
) -> None:
    """The disable file lies where only root writes."""
    found = as_user(0, lambda: {**head_node.verb("disable", "--wait=0"), "uid": os.getuid()})
    assert (head_node.folder / "DISABLE").stat().st_uid == 0
    assert found["uid"] == DAEMON, found


@pytest.mark.parametrize("kind", ["pipe", "folder", "open to all"])
def test_what_is_no_lock_is_named_and_nobody_waits(
    head_node: HeadNode, treasure: Path, kind: str
) -> None:

    def plant() -> None:
        os.umask(0)
        for lock in head_node.locks:
            if kind == "pipe":
                os.mkfifo(lock, 0o600)
            elif kind == "folder":
                lock.mkdir()
            else:
                lock.touch(mode=0o666)

    as_user(DAEMON, plant)
    for words in VERBS:
        found = as_user(0, lambda words=words: head_node.verb(*words), seconds=20.0)
        assert found["code"] != 0, found
        assert str(head_node.locks[0]) in found["said"]
    assert head_node.factors == [500, 700, 0]


def test_a_limits_file_chooses_no_qos(head_node: HeadNode) -> None:
    """[reserve] is off, and names none."""
    qos = head_node.cluster.state["qos"]
    before = {**qos["normal"], "cpu": 100, "live": 100}
    for own in (1, 1000, None):
        head_node.cluster.set(qos={**qos, "normal": before})
        document = {"version": 1, "mechanism": "qos", "names": ["normal"], "own": own}
        path = head_node.state / "state.json.limits"
        path.write_text(json.dumps({**document, "ours": [100], "confirmed": True}))
        os.chown(path, DAEMON, DAEMON)
        head_node.configured()
        found = as_user(0, lambda: head_node.verb("release"))
        assert json.loads((head_node.slurm / "slurm.json").read_text())["qos"]["normal"] == before
        assert found["code"] == 1, found
        assert "a limit of the daemon on batch jobs may be outstanding" in found["said"]
        assert str(path) in found["said"]
        assert head_node.factors == [0, 0, 0]


@pytest.mark.parametrize("job", [2**63, 2**64, -1, 0, 10**40, 1.5, True])
def test_a_job_number_that_none_has_keeps_no_factor(head_node: HeadNode, job: float) -> None:
    head_node.write_state(json.dumps({"version": 1, "jobs": [1, job]}))
    head_node.configured()
    found = as_user(DAEMON, lambda: head_node.verb("release", "--unattended"))
    assert (found["code"], head_node.factors) == (0, [0, 0, 0]), found


def test_a_state_file_that_is_a_link_shows_nobody_elses(
    head_node: HeadNode, treasure: Path
) -> None:
    def plant() -> None:
        (head_node.state / "state.json").unlink()
        (head_node.state / "state.json").symlink_to(treasure)

    as_user(DAEMON, plant)
    found = as_user(0, lambda: head_node.verb("status"))
    assert "root's own" not in found["said"]
    with contextlib.suppress(AssertionError):
        as_user(0, lambda: head_node.verb("release"))
    assert treasure.read_text() == "root's own"
