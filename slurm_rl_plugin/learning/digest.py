"""A digest of whatever shapes a computation, so that what was kept of it is taken for no other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass

import numpy as np


def digest_of(*shaping: object) -> str:
    """The same in each run for the same values: dataclasses, arrays, mappings and sets included.

    Args:
        shaping: values that a repr tells apart, or any of these made of such.
    """
    found = hashlib.sha256()
    for part in _parts(shaping):
        found.update(part)
    return found.hexdigest()


def _parts(value: object) -> Iterable[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _parts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from _parts(sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, Set):  # in an order of its own in each process
        yield from _parts(sorted(value, key=repr))
    elif isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        yield repr(value).encode()  # a column of texts has one for each job
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"[{len(value)}".encode()
        for each in value:
            yield from _parts(each)
    else:
        yield f"{value!r};".encode()
