"""An accounting log read as a stream: whole lines in batches, faults as `log_file` tells them."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from slurm_rl_plugin.accounting.log_file import (
    BYTE_ORDER_MARK,
    GZIP,
    LogFile,
    binary_fault,
    empty_fault,
    gzip_fault,
    long_line_fault,
    open_fault,
    other_compression_fault,
    pipe_fault,
)

_Part = TypeVar("_Part")
#: Bytes of one batch.
BATCH = 16 << 20
#: Bytes of a line at most: twice what a command line may have, with all that else is in a row.
LONGEST_LINE = 4 << 20
#: So much of a log's beginning tells its format.
HEAD = 1 << 20


class LogStream:
    """A log, plain or gzipped whatever its name says, as batches of whole lines.

    Args:
        path: of the log.
        batch: bytes of a batch, about; a line is never cut.
        progress: is told how many stored bytes more are read.
    """

    def __init__(
        self, path: Path, *, batch: int = BATCH, progress: Callable[[int], None] | None = None
    ) -> None:
        self.path = path
        self._batch = batch
        self._progress = progress
        self._hash = hashlib.sha256()

    @property
    def checksum(self) -> str:
        """Sha256 of the stored bytes; of the whole file once the batches are through."""
        return self._hash.hexdigest()

    def head(self) -> LogFile:
        """The beginning of the content, for the reader that must know the format.

        Raises:
            AccountingLogError: as `log_file.read_log_file`.
        """
        with self._opened(_nothing) as content:
            start = content.read(HEAD).removeprefix(BYTE_ORDER_MARK)
        if not start.strip():
            raise empty_fault(self.path)
        if b"\0" in start:
            raise binary_fault(self.path)
        return LogFile(self.path, start, "")

    def batches(self) -> Iterator[bytes]:
        """The content, each batch ending with a line's end, but for the last one's.

        Raises:
            AccountingLogError: the file cannot be read any further, or holds binary data.
        """
        self._hash = hashlib.sha256()
        rest: list[bytes] = []
        first = True
        with self._opened(self._stored) as content:
            while data := content.read(self._batch):
                if first:
                    data, first = data.removeprefix(BYTE_ORDER_MARK), False
                if b"\0" in data:
                    raise binary_fault(self.path)
                if _holds_long_line(data, begun=sum(map(len, rest))):
                    raise long_line_fault(self.path, LONGEST_LINE)
                end = data.rfind(b"\n") + 1
                if end:
                    yield b"".join([*rest, memoryview(data)[:end]])
                    rest = []
                rest.append(data[end:])
        if any(rest):
            yield b"".join(rest)

    def pass_over(self) -> None:
        """Read all stored bytes for checksum and progress alone: another reads what they hold.

        Raises:
            AccountingLogError: the file cannot be read.
        """
        self._hash = hashlib.sha256()
        try:
            with self.path.open("rb") as stored:
                while data := stored.read(self._batch):
                    self._stored(memoryview(data))
        except OSError as error:
            raise open_fault(self.path, error) from None

    def _stored(self, data: memoryview) -> None:
        self._hash.update(data)
        if self._progress is not None:
            self._progress(len(data))

    @contextmanager
    def _opened(self, seen: Callable[[memoryview], None]) -> Iterator[IO[bytes]]:
        if self.path.is_fifo():  # opening it would wait for its writer
            raise pipe_fault(self.path)
        try:
            with self.path.open("rb") as stored:
                if not stored.seekable():
                    raise pipe_fault(self.path)
                magic = stored.read(4)
                stored.seek(0)
                told = io.BufferedReader(_Told(stored, seen), 1 << 20)
                if not magic.startswith(GZIP):
                    if (fault := other_compression_fault(self.path, magic)) is not None:
                        raise fault
                    yield told
                    return
                with gzip.GzipFile(fileobj=told) as content:
                    yield io.BufferedReader(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise gzip_fault(self.path, error) from None
        except OSError as error:
            raise open_fault(self.path, error) from None


class _Told(io.RawIOBase):
    """A file that tells what is read of it."""

    def __init__(self, stored: io.BufferedReader, seen: Callable[[memoryview], None]) -> None:
        self._stored = stored
        self._seen = seen

    def readable(self) -> bool:
        """True: io.BufferedReader asks before it reads."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as RawIOBase asks."""
        count = self._stored.readinto(buffer)
        self._seen(memoryview(buffer)[:count])
        return count


def _nothing(data: memoryview) -> None:
    del data


def _holds_long_line(data: bytes, begun: int) -> bool:
    """Whether a line is too long; the first one began so many bytes before."""
    start = -begun
    while len(data) - start > LONGEST_LINE:
        end = data.rfind(b"\n", max(start, 0), start + LONGEST_LINE + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def read_ahead(parts: Iterator[_Part]) -> Iterator[_Part]:
    """The same parts, the next one made while the caller works on the last."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        coming = worker.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = worker.submit(next, parts, None)
            yield part
