"""Tables of `sacctmgr -P show qos` and `show assoc`: a header, and values parted by bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database.entries import ACCOUNT, QOS, USER, DatabaseEntry
from slurm_rl_plugin.machine_files.values import Value

BAR = "|"
_QOS_COLUMN, _ACCOUNT_COLUMN = "name", "account"
#: Columns by which a header is told: of QOS, of associations, of users and their default accounts.
_HEADERS = ({_QOS_COLUMN, "priority"}, {_ACCOUNT_COLUMN, "user"}, {"user", "defaultaccount"})
_SAME = {"acct": "account", "defacct": "defaultaccount", "parname": "parentname"}


def read_tables(place: str, lines: Iterable[str], *, cluster: str = "") -> Iterator[DatabaseEntry]:
    """Entries of one or more tables, each after its header.

    Args:
        place: what told them, for error messages.
        lines: of the tables.
        cluster: rows of others are left out; "" takes all.

    Raises:
        ConfigurationError: a row has not the columns of its header, or there is no header.
    """
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.rstrip("\r\n").split(BAR)
        if _is_header(cells):
            header = cells
        elif len(cells) != len(header):
            raise ConfigurationError(
                f"{place}:{number}: this row has {len(cells)} values and its header "
                f"{len(header)}; write the table again with `sacctmgr -P show qos` or "
                "`sacctmgr -P show assoc`"
            )
        else:
            yield from _entry(f"{place}:{number}", header, cells, cluster)


def _is_header(cells: Sequence[str]) -> bool:
    names = [_column(cell) for cell in cells]
    plain = all(cell.replace(" ", "").isalnum() for cell in cells if cell)
    return plain and any(each <= {*names} for each in _HEADERS)


def _column(cell: str) -> str:
    name = cell.replace(" ", "").lower()
    return _SAME.get(name, name)


def _entry(
    place: str, header: Sequence[str], cells: Sequence[str], cluster: str
) -> Iterator[DatabaseEntry]:
    titled = [(title, cell.strip()) for title, cell in zip(header, cells, strict=True) if title]
    row = {_column(title): cell for title, cell in titled}
    if cluster and row.get("cluster", cluster) != cluster:
        return
    keys = {_column(title): Value(place, title, cell) for title, cell in titled if cell}
    if _QOS_COLUMN in row:
        yield DatabaseEntry(kind=QOS, name=row[_QOS_COLUMN].lower(), keys=keys)
        return
    user, account = row.get("user", ""), row.get(_ACCOUNT_COLUMN, "").lower()
    yield DatabaseEntry(
        kind=USER if user else ACCOUNT,
        name=user or account,
        account=account if user else "",
        parent="" if user else row.get("parentname", "").lower(),
        partition=row.get("partition", ""),
        keys=keys,
    )
