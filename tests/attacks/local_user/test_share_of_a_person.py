"""One user with 65,536 subordinate uids, as podman and apptainer give, at the forecast service."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.serving.clients import (
    MOST_CLIENTS,
    NAMELESS,
    NEWCOMERS,
    LocalUsers,
    login_name,
)
from slurm_rl_plugin.serving.page_server import (
    OF_NAMELESS,
    JsonPages,
    OpenConnections,
    Page,
    serve_pages_locally,
)
from tests.attacks.another_user import as_user, meanwhile, needs_root
from tests.unit.forecasts.test_forecast_pages import pages

#: First subordinate uid, and the user who is kept waiting; the latter has a login name.
SUBUID, VICTIM = 100_000, 1
QUESTION = b"POST /start HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}"
#: Seconds for which the queue is played forward.
WORK = 0.3


@pytest.fixture
def path() -> Iterator[Path]:
    """A served socket that any user may connect to."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-rl-attack-", dir="/tmp"))
    folder.chmod(0o755)

    def new_job(queue: object, request: object) -> dict[str, Any]:
        time.sleep(WORK)
        return {"jobs": [{}]}

    served = pages()
    served.new_job = new_job
    before = os.umask(0o027)
    try:
        serve_pages_locally(served, folder / "socket", section="forecast")
    finally:
        os.umask(before)
    yield folder / "socket"
    shutil.rmtree(folder)


def said(path: Path, request: bytes) -> str:
    """The status of an answer; "" if the connection is closed without one."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(40.0)
        try:
            asked.connect(str(path))
            asked.sendall(request)
            answer = asked.recv(1000).decode()
        except OSError:
            return ""
    return answer[9:12]


def flood(path: Path, request: bytes, number: int) -> Callable[[], None]:
    """Threads of one user that send a request again and again."""

    def ask() -> None:
        while True:
            said(path, request)

    def begin() -> None:
        for _ in range(number):
            threading.Thread(target=ask, daemon=True).start()

    return begin


@needs_root
@pytest.mark.parametrize("request_", [QUESTION, b"", b"GET /start HTTP/1.0\r\n\r\n"])
def test_many_uids_of_one_person_keep_nobody_out(path: Path, request_: bytes) -> None:
    def victim() -> dict[str, int]:
        found: Counter[str] = Counter()
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            for page in ("/start", "/metrics"):
                found[said(path, f"GET {page} HTTP/1.0\r\n\r\n".encode())] += 1
        found[said(path, QUESTION)] += 1
        return dict(found)

    holders = [meanwhile(SUBUID + each, flood(path, request_, 8)) for each in range(8)]
    for each in holders:
        each.__enter__()
    try:
        found = as_user(VICTIM, victim)
    finally:
        for each in holders:
            each.__exit__(None, None, None)
    assert set(found) == {"200"}, found


@needs_root
def test_a_name_service_that_hangs_for_them_holds_up_nobody_else(path: Path) -> None:
    def name_of(number: int) -> str:
        if number >= SUBUID:
            time.sleep(120.0)
        return login_name(number)

    slow = path.with_name("slow")
    pages = JsonPages("test", lambda environ: Page.of({}))
    serve_pages_locally(pages, slow, section="forecast", users=LocalUsers(name_of))

    def asks() -> list[str]:
        return [said(slow, b"GET / HTTP/1.0\r\n\r\n") for _ in range(20)]

    assert set(as_user(VICTIM, asks)) == {"200"}
    with meanwhile(SUBUID, flood(slow, b"GET / HTTP/1.0\r\n\r\n", 100)):
        time.sleep(4.0)
        assert set(as_user(VICTIM, asks)) == {"200"}


@needs_root
def test_all_of_them_together_have_less_than_one_users_questions(path: Path) -> None:
    def asks(uid: int) -> str:
        return str(as_user(uid, lambda: said(path, QUESTION)))

    ours = [asks(SUBUID + each) for each in range(12)]
    theirs = [asks(VICTIM) for _ in range(12)]
    assert set(ours) == {"200", "429"}
    assert set(theirs) == {"200"}


def test_a_name_is_asked_for_by_no_thread_that_accepts_and_many_uids_make_none_unknown() -> None:
    asked: list[int] = []

    def name_of(number: int) -> str:
        asked.append(number)
        return {7: "ann"}.get(number, "")

    users = LocalUsers(name_of)
    assert users.client(7) == users.client(SUBUID) == NEWCOMERS
    assert asked == []
    assert [users.name(7), users.name(SUBUID)] == ["ann", ""]
    assert [users.client(7), users.client(SUBUID)] == ["uid:7", NAMELESS]
    for number in range(SUBUID, SUBUID + MOST_CLIENTS + 1):
        users.name(number)
    assert [users.client(7), users.client(SUBUID)] == ["uid:7", NEWCOMERS]


def test_places_of_the_nameless_are_few_and_a_name_gives_one_of_its_own() -> None:
    places = OpenConnections()
    ends = [socket.socketpair() for _ in range(OF_NAMELESS)]
    for mine, _ in ends:
        places.begin(mine, NAMELESS, 0.0)
    assert not places.has_room(NAMELESS)
    assert places.has_room("uid:7")
    places.asked(ends[0][0], "uid:7")
    assert places.has_room(NAMELESS)
    for pair in ends:
        for each in pair:
            each.close()


@needs_root
def test_any_user_may_connect_whatever_the_umask_and_a_file_is_not_replaced(
    path: Path, tmp_path: Path
) -> None:
    assert path.stat().st_mode & 0o777 == 0o666
    assert as_user(SUBUID, lambda: said(path, b"GET /metrics HTTP/1.0\r\n\r\n")) == "200"
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(Exception, match="Address already in use"):
        serve_pages_locally(lambda environ, start: [], tmp_path / "file", section="forecast")
    assert (tmp_path / "file").read_text() == "{}"
