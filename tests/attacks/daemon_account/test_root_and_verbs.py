"""Root follows no link in a folder of a lesser account, whatever verb it runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import VERBS, verb_parser
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.audit.log import AuditLog
from tests.attacks.another_user import DAEMON, as_user, needs_root
from tests.attacks.head_node import HeadNode

#: The account of the forecast service.
FORECASTS = 61003
#: Words that let a verb go as far as it comes within seconds; each verb that reads the site's
#: configuration is here.
WORDS: dict[str, tuple[str, ...]] = {
    "audit": (),
    "check": (),
    "disable": ("--wait=0",),
    "enable": ("--wait=0",),
    "evaluate": ("/nowhere/log",),
    "experiment": ("status",),
    "explain": ("1",),
    "forecast": ("--once",),
    "limits": ("/nowhere/log",),
    "offer": (),
    "pause": ("--for=1h", "--wait=0"),
    "queue": (),
    "release": (),
    "pbs-setup": ("--print",),
    "route": (),
    "run": ("--once",),
    "shadow-report": (),
    "show-config": (),
    "start": ("1",),
    "status": (),
    "train": ("/nowhere/log", "-o", "/nowhere/model.onnx"),
    "tune": ("/nowhere/log",),
    "what-if": ("/nowhere/log", "--change=PriorityWeightAge=1"),
}
#: Whose account a command takes when root runs it; root's own for the others.
OWNERS = {"forecast": FORECASTS} | dict.fromkeys(
    ("check", "disable", "enable", "experiment", "pause", "release", "run", "status"), DAEMON
)
#: Python's audit events on files that are opened, made, changed or removed.
EVENTS = ("open", "sqlite3.connect", "os.mkdir", "os.chmod", "os.chown", "os.rename", "os.remove")


def test_every_verb_that_reads_the_configuration_is_tried() -> None:
    reads = {
        verb
        for verb in VERBS
        if any("--config" in each.option_strings for each in verb_parser(verb)._actions)
    }
    assert set(WORDS) == reads
    assert set(OWNERS) <= reads


@needs_root
def test_a_file_for_the_page_is_where_root_asked_for_it(head_node: HeadNode) -> None:
    """Root becomes the daemon's account, and leaves a folder that this account cannot enter."""
    folder = head_node.folder / "private"
    folder.mkdir(mode=0o700)

    def run() -> Any:
        os.chdir(folder)
        return head_node.verb("status", "--html", "page.html")

    found = as_user(0, run, seconds=120.0)
    assert f"--html {folder}/page.html: you cannot write to the folder" in found["said"], found
    assert not Path("/page.html").exists()


@needs_root
def test_root_writes_no_audit_through_a_link_in_the_daemons_folder(head_node: HeadNode) -> None:
    """The state folder is root's there, so root stays root."""
    folder, log = head_node.folder / "log", head_node.folder / "log" / "audit.jsonl"
    folder.mkdir(mode=0o755)
    log.symlink_to(head_node.folder / "nologin")
    for path in (folder, log):
        os.chown(path, DAEMON, DAEMON, follow_symlinks=False)

    def write() -> str:
        try:
            AuditLog(log)._append("line\n")
        except ConfigurationError as error:
            return str(error)
        return ""

    assert "cannot be written" in as_user(0, write)
    assert not (head_node.folder / "nologin").exists()
    os.chown(folder, 0, 0)  # root's own link, as /dev/stdout
    assert as_user(0, write) == ""
    assert (head_node.folder / "nologin").read_text() == "line\n"


@needs_root
@pytest.mark.parametrize("verb", WORDS)
def test_root_has_the_rights_that_the_table_says(head_node: HeadNode, verb: str) -> None:
    forecasts = head_node.folder / "forecasts"
    forecasts.mkdir(mode=0o755)
    os.chown(forecasts, FORECASTS, FORECASTS)
    head_node.more = (
        f'[forecast]\nqueue_file = "{head_node.state}/queue.npz"\n'
        f'kept_file = "{forecasts}/kept.sqlite"\nsocket = "{forecasts}/socket"\n'
        f'[offer]\ntoken_file = "{head_node.folder}/token"\n'
    )
    head_node.configured()
    (head_node.state / "audit.jsonl").touch()
    # a program of root's that follows these would read or make what the account may not
    for name in ("queue.npz", "state.json.experiment"):
        (head_node.state / name).symlink_to(head_node.folder / "shadow")
    (forecasts / "kept.sqlite").symlink_to(head_node.folder / "nologin")
    lesser = (str(head_node.state), str(forecasts))

    def run() -> dict[str, Any]:
        signal.alarm(100)  # ends this child without an answer
        seen: list[str] = []

        def note(event: str, words: tuple[Any, ...]) -> None:
            if event in EVENTS and os.geteuid() == 0 and isinstance(words[0], str | Path):
                path, follows = str(words[0]), event != "open" or not words[2] & os.O_NOFOLLOW
                if path.startswith(lesser) and follows:
                    seen.append(f"{event} {path}")

        sys.addaudithook(note)
        found = head_node.verb(verb, *WORDS[verb])
        return {**found, "seen": seen, "uid": os.geteuid()}

    found = as_user(0, run, seconds=120.0)
    assert found["seen"] == [], found
    assert found["uid"] == OWNERS.get(verb, 0), found
    assert not (head_node.folder / "nologin").exists()
