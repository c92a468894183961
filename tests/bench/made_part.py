"""The part of a document that a benchmark makes, between two lines that stand around it."""

from __future__ import annotations


def with_part(document: str, begin: str, end: str, made: str) -> str:
    """The document with this part made anew.

    Raises:
        ValueError: it has no place for it.
    """
    before, found, rest = document.partition(begin)
    _, closes, after = rest.partition(end)
    if not found or not closes:
        raise ValueError(f"no lines {begin} and {end}")
    return f"{before}{begin}\n{made}\n{end}{after}"
