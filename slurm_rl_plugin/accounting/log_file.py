"""Opening an accounting log: one read, gzip told by content, faults in one sentence."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.errors import AccountingLogError

GZIP = b"\x1f\x8b"
_OTHER_COMPRESSION = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LogFile:
    """The plain content of an accounting log.

    Attributes:
        path: where it was read, for error messages.
        content: its bytes after decompression; neither empty nor binary.
        checksum: sha256 of the bytes as stored on disk.
    """

    path: Path
    content: bytes
    checksum: str

    def fault(
        self, problem: str, *, line: int | None = None, field: str | None = None
    ) -> AccountingLogError:
        """Return the error that blames a place in this file, for the caller to raise."""
        return AccountingLogError(self.path, problem, line=line, field=field)


def read_log_file(path: Path) -> LogFile:
    """Read a log, plain or gzipped whatever its name says.

    Raises:
        AccountingLogError: the file is missing, unreadable, a directory, empty, binary, truncated
            or compressed in another way.
    """
    stored = _stored_bytes(path)
    content = _decompressed(path, stored).removeprefix(BYTE_ORDER_MARK)
    if not content.strip():
        raise empty_fault(path)
    if b"\0" in content:
        raise binary_fault(path)
    return LogFile(path, content, hashlib.sha256(stored).hexdigest())


def _stored_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise open_fault(path, error) from None


def _decompressed(path: Path, stored: bytes) -> bytes:
    if (fault := other_compression_fault(path, stored)) is not None:
        raise fault
    if not stored.startswith(GZIP):
        return stored
    try:
        return gzip.decompress(stored)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise gzip_fault(path, error) from None


def open_fault(path: Path, error: OSError) -> AccountingLogError:
    """The error of a file that the system does not give."""
    if isinstance(error, FileNotFoundError):
        return AccountingLogError(path, "there is no such file; check the path")
    if isinstance(error, IsADirectoryError):
        problem = "this is a directory; give the path of one log file"
        return AccountingLogError(path, problem)
    problem = f"the file cannot be read ({error.strerror}); check its permissions"
    return AccountingLogError(path, problem)


def pipe_fault(path: Path) -> AccountingLogError:
    """The error of what can be read once alone where it is read more than once."""
    return AccountingLogError(path, "this is a pipe; give the path of a log file")


def other_compression_fault(path: Path, stored: bytes) -> AccountingLogError | None:
    """The error of a file that is compressed in a way that we do not read, if it is."""
    for magic, name in _OTHER_COMPRESSION.items():
        if stored.startswith(magic):
            problem = f"the file is compressed with {name}; decompress it or use gzip"
            return AccountingLogError(path, problem)
    return None


def gzip_fault(path: Path, error: Exception) -> AccountingLogError:
    """The error of a gzip file that does not decompress."""
    if isinstance(error, EOFError):
        return AccountingLogError(path, "the gzip file is truncated; copy it again")
    return AccountingLogError(path, f"the gzip file is corrupt ({error}); copy it again")


def empty_fault(path: Path) -> AccountingLogError:
    """The error of a file that holds nothing."""
    return AccountingLogError(path, "the file is empty; export the accounting log again")


def binary_fault(path: Path) -> AccountingLogError:
    """The error of a file that is no text."""
    return AccountingLogError(path, "the file is binary; give an accounting log in text form")


def long_line_fault(path: Path, longest: int) -> AccountingLogError:
    """The error of a file with a line that no batch system writes."""
    problem = f"a line is longer than {longest >> 20} MiB; give an accounting log with its lines"
    return AccountingLogError(path, problem)
