"""The words of `slurm-rl start`: a job, or a command whose options are read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.services.forecast_client import ServiceClient

_BOTH = "is neither a job nor a command: give a job's number, such as 123"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("abc", _BOTH),
        ("-1", _BOTH),
        ("job.sh", "give the command that submits after --, as in -- sbatch job.sh."),
        ("12x", "'12x' is not a job ID: give NUMBER"),
    ],
)
def test_a_single_word(
    word: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").touch()
    assert main(["start", word]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert (_BOTH in said) == (sentence == _BOTH)


@pytest.mark.parametrize(
    ("memory", "in_all", "goes"),
    [("--mem-per-cpu=2000", 8000.0, True), ("--mem=2000", 2000.0, False)],
)
def test_the_service_is_told_whether_memory_goes_with_processors(
    memory: str, in_all: float, goes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Mapping[str, Any]] = []

    def told(client: ServiceClient, request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ServiceClient, "post", told)
    assert main(["start", "--json", "--", "sbatch", "-n4", memory, "--wrap", "true"]) == 0
    assert (asked[0]["memory"], asked[0]["memory_per_cpu"]) == (in_all, goes)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://host:port", "is none: give one such as https://host:9344."),
        ("https://[::1", "is none: give one such as https://host:9344."),
        ("ftp://host", "is none: give one such as https://host:9344."),
        ("http://host.example", "would show the token to the network: give https."),
    ],
)
def test_an_address_that_is_none_is_told(
    url: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("t" * 40)
    assert main(["start", "--url", url, "--token-file", str(tmp_path / "token"), "1"]) == 2
    assert f"slurm-rl start: url {url!r} {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"[]", b"5", b"[" * 200_000])
def test_an_answer_of_something_else_is_told(answer: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 40)
    with socket.create_server(("127.0.0.1", 0)) as listens:
        url = f"http://127.0.0.1:{listens.getsockname()[1]}"
        told = threading.Thread(target=_answer_once, args=(listens, answer))
        told.start()
        client = ServiceClient(socket="", url=url, token_file=str(tmp_path / "token"))
        with pytest.raises(ConfigurationError, match="does not answer"):
            client.get(job=1)
        told.join()


def _answer_once(listens: socket.socket, body: bytes) -> None:
    connection, _ = listens.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)
