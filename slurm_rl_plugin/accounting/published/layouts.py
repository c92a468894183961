"""The published layouts by their columns: which one a file has, and which columns are read."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from slurm_rl_plugin.whole_file import read_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLayout:
    """Columns of one data set; see `layouts.toml`."""

    kind: str  #: what `JobLog.kind` calls such a log
    title: str  #: as its authors call it
    told_by: Sequence[str]  #: columns that only it has
    needed: Sequence[str]  #: columns that each job needs
    taken: Sequence[str]  #: columns that are read where they are there
    #: Names of columns that the authors changed -> today's.
    former: Mapping[str, str] = field(default_factory=dict)

    def today(self, name: str) -> str:
        """A column's name of today."""
        return self.former.get(name, name)


@cache
def _layouts() -> list[PublishedLayout]:
    tables = tomllib.loads(read_whole(Path(__file__).with_name("layouts.toml")).decode())
    return [PublishedLayout(kind=kind, **table) for kind, table in tables.items()]


def layout_of(columns: Collection[str]) -> PublishedLayout | None:
    """The layout that a file of these columns has; None for any other file."""
    there = set(columns)
    return next((each for each in _layouts() if there.issuperset(each.told_by)), None)


def header_columns(line: str) -> list[str]:
    """The columns that the first line of a csv file names; none where it is no such line."""
    try:
        return [name.strip() for name in next(csv.reader([line.strip()]), [])]
    except csv.Error:
        return []
