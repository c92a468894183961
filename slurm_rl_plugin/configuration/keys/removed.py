"""Sections and keys of earlier releases that are gone, and what a site does instead."""

from __future__ import annotations

#: `section` or `section.key` -> what follows its name in a warning: what it was, that it is gone,
#: and what to do.
REMOVED: dict[str, str] = {}


def removal_of(section: str, name: str = "") -> str | None:
    """Why a section or a key no longer exists; None if no release had it."""
    return REMOVED.get(section) or REMOVED.get(f"{section}.{name}")
