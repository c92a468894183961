"""A list of sites, or the name service, that sends `slurm-rl route` where no site is.

All of it at loopback addresses: the name service is the one thing that is played.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.brokers.live.remote_site import RemoteSite, ask_sites
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest

TOKEN = "t" * 40


@pytest.fixture
def job() -> JobRequest:
    description = JobDescription(
        partition="p",
        qos="",
        name="",
        time_limit=600.0,
        has_batch_script=None,
        account="a",
        user="u",
    )
    return JobRequest(job=description, processors=4)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of this host that no site is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        yield server


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254",
        "https://2852039166/latest/meta-data",  # the same in decimal
        "https://0xa9fea9fe",
        "https://[fe80::1]",
        "https://[::ffff:169.254.169.254]",
        "https://224.0.0.1",
        "https://[ff02::1]",
        "https://0.0.0.0:9344",
        "https://[::]",
        "https://255.255.255.255",
        "https://2130706433",  # 127.0.0.1, and not named so
        "file:///etc/slurm-rl/offer-token",
        "ftp://127.0.0.1",
        "gopher://127.0.0.1:6379/_x",
        # in clear text to another host, or no address of a service
        *("http://host.example:9344", "http://10.0.0.1", "http://localhost.evil.example"),
        *("https://", "https://host:0", "https://host:99999", "https://host:port", "https://[::1"),
        *("https://user:word@host", "https://host?x=1", "host:9344"),
    ],
)
def test_a_list_that_names_such_an_address_ends_with_one_sentence(
    tmp_path: Path,
    token: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "slurm-rl").mkdir()
    sites = tmp_path / "slurm-rl" / "sites.toml"
    sites.write_text(f'[[site]]\nname = "north"\nurl = "{url}"\ntoken_file = "{token}"\n')
    words = ["--set", "route.timeout=0.5", "--set", 'route.sites_file=""']
    assert main(["route", *words, "--", "sbatch", "--wrap=true"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert f"{sites}:1: [[site]] 1: url {url!r}" in said[0]


@pytest.mark.parametrize("url", ["https://10.1.2.3", "https://192.168.0.1", "https://172.16.0.1"])
def test_head_nodes_of_private_networks_are_sites(token: Path, url: str) -> None:
    RemoteSite(name="north", url=url, token_file=token)


class Names:
    """A name service with given answers, one after another."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.asked = 0

    def __call__(self, host: Any, port: Any, *args: Any, **words: Any) -> list[Any]:
        if words.get("flags") == socket.AI_NUMERICHOST:
            raise socket.gaierror
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]


def why_not(site: RemoteSite, job: JobRequest, timeout: float = 2.0) -> str:
    (answer,) = ask_sites([site], job, timeout, time.monotonic)
    return answer.why_not


def test_a_name_that_comes_to_stand_for_this_host_is_not_asked(
    token: Path, job: JobRequest, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name was sound when an administrator wrote it down."""
    port = listener.getsockname()[1]
    site = RemoteSite(name="north", url=f"https://north.example:{port}", token_file=token)
    monkeypatch.setattr(socket, "getaddrinfo", Names("127.0.0.1"))
    asks = threading.Thread(target=why_not, args=(site, job), daemon=True)
    asks.start()
    with pytest.raises(TimeoutError):  # no client connects
        listener.accept()
    asks.join(10)
    assert "north.example resolves to 127.0.0.1" in why_not(site, job)


@pytest.mark.parametrize("address", ["169.254.169.254", "224.0.0.1", "0.0.0.0"])
def test_a_name_that_stands_for_no_site_is_not_asked(
    token: Path, job: JobRequest, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = RemoteSite(name="north", url="https://north.example", token_file=token)
    monkeypatch.setattr(socket, "getaddrinfo", Names(address))
    assert f"north.example resolves to {address}" in why_not(site, job, 0.5)


def test_what_was_judged_is_what_is_asked(
    token: Path, job: JobRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = RemoteSite(name="own", url=f"https://{socket.gethostname()}:1", token_file=token)
    names = Names("127.0.0.1", "169.254.169.254")
    monkeypatch.setattr(socket, "getaddrinfo", names)
    assert "refused" in why_not(site, job)  # by the port: a host may have its own name
    assert names.asked == 1


#: Seconds after which an answer without end must have been given up.
PATIENCE = 5.0


def answering(listener: socket.socket, words: bytes, again: bytes) -> list[bytes]:
    """Answer each connection so; what was asked is added to the list."""
    heard: list[bytes] = []

    def serve() -> None:
        listener.settimeout(5.0)
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(65536))
                    connection.sendall(words)
                    end = time.monotonic() + 2 * PATIENCE  # or who reads it would read for ever
                    while again and time.monotonic() < end:
                        connection.sendall(again)

    threading.Thread(target=serve, daemon=True).start()
    return heard


def test_no_redirect_takes_the_token_elsewhere(
    token: Path, job: JobRequest, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    words = f"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:{port}/stolen\r\nContent-Length: 2\r\n"
    heard = answering(listener, f"{words}\r\n{{}}".encode(), b"")
    site = RemoteSite(name="north", url=f"http://127.0.0.1:{port}", token_file=token)
    assert "307" in why_not(site, job)
    assert [each.split(b" ", 2)[1] for each in heard] == [b"/offer"]


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"{" * 65536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n" * 1000),
    ],
)
def test_an_answer_without_end_is_bounded_in_time(
    token: Path, job: JobRequest, listener: socket.socket, words: bytes, again: bytes
) -> None:
    answering(listener, words, again)
    port = listener.getsockname()[1]
    site = RemoteSite(name="north", url=f"http://127.0.0.1:{port}", token_file=token)
    began = time.monotonic()
    assert why_not(site, job)
    assert time.monotonic() - began < PATIENCE
