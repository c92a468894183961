"""The words of `slurm-rl start`: a job, or a command whose options are read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.services.forecast_client import ServiceClient
from tests.functional.typed import Typed, rows_of


@rows_of("start")
def test_what_cannot_be_asked_is_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").touch()
    Path("token").write_text("t" * 40)
    sentence, both = typed.refused("start", *words.split()), "is neither a job nor a command"
    assert said in sentence
    assert (both in sentence) == (both in said)


@pytest.mark.parametrize(
    ("memory", "in_all", "goes"),
    [("--mem-per-cpu=2000", 8000.0, True), ("--mem=2000", 2000.0, False)],
)
def test_the_service_is_told_whether_memory_goes_with_processors(
    memory: str, in_all: float, goes: bool, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    asked: list[Mapping[str, Any]] = []

    def told(client: ServiceClient, request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    monkeypatch.setattr(ServiceClient, "post", told)
    typed.out("start", "--json", "--", "sbatch", "-n4", memory, "--wrap", "true")
    assert (asked[0]["memory"], asked[0]["memory_per_cpu"]) == (in_all, goes)


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
