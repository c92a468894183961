"""An accounting log as whole lines in batches; gzip is recognized by content."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from slurm_rl_plugin.errors import AccountingLogError

_Part = TypeVar("_Part")
#: Bytes of one batch.
BATCH = 16 << 20
#: Bytes of a line at most: twice what a command line may have, with all that else is in a row.
LONGEST_LINE = 4 << 20
#: The format of a log is recognised by its first bytes.
_HEAD = 1 << 20
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(eq=False)
class LogFile:
    """A log, plain or gzipped whatever its name says, as batches of whole lines.

    Raises:
        AccountingLogError: reading it, where it is missing, unreadable, a directory, empty, binary,
            truncated, compressed in another way, or has a line that no batch system writes.
    """

    path: Path  #: where it is read, for error messages
    stored: bytes | None = None  #: its bytes, where they are at hand; else the file is read
    _: KW_ONLY
    batch: int = BATCH  #: bytes of a batch, about; a line is never cut
    #: Called with the number of stored bytes that were read since the last call.
    progress: Callable[[int], None] | None = None
    checksum: str = ""  #: sha256 of the stored bytes, once all batches were read

    def fault(
        self, problem: str, *, line: int | None = None, field: str | None = None
    ) -> AccountingLogError:
        """Return the error that blames a place in this file, for the caller to raise."""
        return AccountingLogError(self.path, problem, line=line, field=field)

    def head(self) -> bytes:
        """The beginning of the content, by which its format is recognised."""
        with self._opened() as content:
            start = content.read(_HEAD).removeprefix(_BYTE_ORDER_MARK)
        if not start.strip():
            raise self.fault("the file is empty; export the accounting log again")
        self._refuse_binary(start)
        return start

    def batches(self) -> Iterator[bytes]:
        """The content, each batch ending with a line's end, but for the last one's."""
        self._hash = hashlib.sha256()
        rest: list[bytes] = []
        first = True
        with self._opened(self._seen) as content:
            while data := content.read(self.batch):
                if first:
                    data, first = data.removeprefix(_BYTE_ORDER_MARK), False
                self._refuse_binary(data)
                if _holds_long_line(data, begun=sum(map(len, rest))):
                    longest = f"a line is longer than {LONGEST_LINE >> 20} MiB"
                    raise self.fault(f"{longest}; give an accounting log with its lines")
                end = data.rfind(b"\n") + 1
                if end:
                    yield b"".join([*rest, memoryview(data)[:end]])
                    rest = []
                rest.append(data[end:])
        if any(rest):
            yield b"".join(rest)
        self.checksum = self._hash.hexdigest()

    def pass_over(self) -> None:
        """Read all stored bytes for checksum and progress alone: another reads what they hold."""
        self._hash = hashlib.sha256()
        try:
            with self.path.open("rb") as stored:
                while data := stored.read(self.batch):
                    self._seen(data)
        except OSError as error:
            raise _open_fault(self.path, error) from None
        self.checksum = self._hash.hexdigest()

    def _seen(self, data: bytes) -> None:
        self._hash.update(data)
        if self.progress is not None:
            self.progress(len(data))

    def _refuse_binary(self, data: bytes) -> None:
        if b"\0" in data:
            raise self.fault("the file is binary; give an accounting log as text, plain or gzipped")

    @contextmanager
    def _opened(self, seen: Callable[[bytes], None] | None = None) -> Iterator[IO[bytes]]:
        pipe = self.fault("this is a pipe; give the path of a log file")
        if self.stored is None and self.path.is_fifo():  # opening it would wait for its writer
            raise pipe
        try:
            with self._stored() as stored:
                if not stored.seekable():
                    raise pipe
                magic = stored.read(len(_GZIP))
                stored.seek(0)
                observed = _Observed(stored, 1 << 20)
                observed.seen = seen
                if magic != _GZIP:
                    yield observed
                    return
                with gzip.GzipFile(fileobj=observed) as content:
                    yield io.BufferedReader(content)
        except EOFError:
            raise self.fault("the gzip file is truncated; copy it again") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self.fault(f"the gzip file is corrupt ({error}); copy it again") from None
        except OSError as error:
            raise _open_fault(self.path, error) from None

    def _stored(self) -> Any:
        return self.path.open("rb", 0) if self.stored is None else io.BytesIO(self.stored)


def log_of_any(path: Path) -> LogFile:
    """A log to be read whole; the bytes of a pipe, which can be read once, are kept."""
    try:
        return LogFile(path, path.read_bytes() if path.is_fifo() else None)
    except OSError as error:
        raise _open_fault(path, error) from None


def _open_fault(path: Path, error: OSError) -> AccountingLogError:
    if isinstance(error, FileNotFoundError):
        return AccountingLogError(path, "there is no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return AccountingLogError(path, "this is a directory; give the path of one log file")
    problem = f"the file cannot be read ({error.strerror}); check its permissions"
    return AccountingLogError(path, problem)


class _Observed(io.BufferedReader):
    """A file that passes on what is read from it."""

    seen: Callable[[bytes], None] | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if self.seen is not None:
            self.seen(data)
        return data


def _holds_long_line(data: bytes, begun: int) -> bool:
    """Whether a line is too long; `before` bytes of the first one were read already."""
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
