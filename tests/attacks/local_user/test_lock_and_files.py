"""A user with a shell on the head node, against the daemon through its files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.attacks.another_user import DAEMON, STRANGER, as_user, meanwhile, needs_root
from tests.attacks.head_node import HeadNode, lock_all_of, read_all_of

pytestmark = needs_root


@pytest.fixture
def held(head_node: HeadNode) -> Iterator[HeadNode]:
    """The daemon was killed with outstanding factors; a stranger locks all that may be opened."""
    head_node.configured()
    assert as_user(DAEMON, lambda: head_node.verb("run", "--once"))["code"] == 0
    assert any(head_node.factors)
    with meanwhile(STRANGER, lambda: lock_all_of(head_node.state)):
        yield head_node


def test_a_stranger_who_holds_what_he_may_open_keeps_no_daemon_out(held: HeadNode) -> None:
    found = as_user(DAEMON, lambda: held.verb("run", "--once"))
    assert found["code"] == 0, found


@pytest.mark.parametrize("words", [("release",), ("release", "--unattended")])
@pytest.mark.parametrize("uid", [DAEMON, 0])
def test_nor_does_he_keep_factors(held: HeadNode, words: tuple[str, ...], uid: int) -> None:
    found = as_user(uid, lambda: held.verb(*words))
    assert (found["code"], held.factors) == (0, [0, 0, 0]), found


def test_nor_does_he_pass_for_a_daemon(held: HeadNode) -> None:
    found = as_user(DAEMON, lambda: held.verb("status"))
    assert "daemon: absent" in found["said"], found


def test_nothing_that_names_jobs_or_accounts_is_for_all_to_read(head_node: HeadNode) -> None:
    head_node.more = '[reserve]\nmechanism = "qos"\nqos = "batch"\nmost_processors = 4\n'
    (head_node.state / "state.json").unlink()
    head_node.configured()
    assert as_user(DAEMON, lambda: head_node.verb("run", "--once"))["code"] == 0
    made = {path.name for path in head_node.state.iterdir()}
    assert {"state.json", "audit.jsonl"} < made
    assert as_user(STRANGER, lambda: read_all_of(head_node.state)) == []


def test_nobody_else_may_write_there(head_node: HeadNode) -> None:
    head_node.configured()
    as_user(DAEMON, lambda: head_node.verb("run", "--once"))

    def writable() -> list[str]:
        paths = [head_node.state, *head_node.state.iterdir()]
        return [path.name for path in paths if os.access(path, os.W_OK)]

    assert as_user(STRANGER, writable) == []


@pytest.mark.parametrize("uid", [DAEMON, 0])
def test_a_live_daemon_is_left_alone_all_the_same(head_node: HeadNode, uid: int) -> None:
    """Both readers: its own account, and root."""
    from slurm_rl_plugin.hook.daemon.lock import only_daemon  # noqa: PLC0415 - elsewhere before

    head_node.configured()
    lock = only_daemon(head_node.state / "state.json")
    with meanwhile(DAEMON, lock.__enter__):
        found = as_user(uid, lambda: head_node.verb("release", "--unattended"))
        assert (found, head_node.factors) == ({"code": 0, "said": ""}, [500, 700, 0])
        assert as_user(uid, lambda: head_node.verb("release"))["code"] == 2
        assert as_user(uid, lambda: head_node.verb("status"))["said"].startswith("daemon: runs")
