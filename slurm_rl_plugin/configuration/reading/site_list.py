"""The sites that `route` asks: [[site]] tables of the site's file and of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.brokers.live.remote_site import SiteAddress
from slurm_rl_plugin.configuration.keys.key import nearest
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, read_file, shown
from slurm_rl_plugin.errors import ConfigurationError

#: Key of a site -> field of `SiteAddress`; those after the third may be left out.
FIELDS = {
    "name": "name",
    "url": "url",
    "token_file": "token_file",
    "ca": "authority",
    "client_certificate": "client_certificate",
    "client_key": "client_key",
}
_NO_FILES = frozenset({"name", "url"})


def read_sites(paths: list[Path]) -> list[SiteAddress]:
    """The sites of all files, in order; a later file's site takes the place of one of its name."""
    faults: list[str] = []
    found: dict[str, SiteAddress] = {}
    for path in paths:
        file = read_file(path, faults)
        if file is not None:
            found |= {site.name: site for site in _sites(file, path.parent, faults)}
    if faults:
        raise ConfigurationError(faults)
    return list(found.values())


def _sites(file: ConfigurationFile, folder: Path, faults: list[str]) -> Iterator[SiteAddress]:
    faults += [
        f"{file.where(key)}: {shown(key)} is unknown: write [[site]]."
        for key in file.content
        if key != "site"
    ]
    given = file.content.get("site", [])
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{file.where('site')}: site is no list: write each under [[site]].")
        return
    names: set[str] = set()
    for place, each in enumerate(given):
        where = f"{file.where('site', place)}: [[site]] {place + 1}"
        problems = [*_problems(each)]
        name = each.get("name")
        if isinstance(name, str) and name in names:
            problems.append(f"name {name!r} is given twice: each site has its own.")
        if problems:
            faults += [f"{where}: {problem}" for problem in problems]
            continue
        names.add(str(name))
        try:
            yield SiteAddress(
                **{
                    field: _value(key, each[key], folder)
                    for key, field in FIELDS.items()
                    if key in each
                }
            )
        except ConfigurationError as error:
            faults.append(f"{where}: {error}")


def _problems(site: Mapping[str, Any]) -> Iterator[str]:
    for key, value in site.items():
        if key not in FIELDS:
            yield f"{shown(key)} is unknown{nearest(key, list(FIELDS))}"
        elif not isinstance(value, str) or not value or not value.isprintable():
            yield f"{key} is {value!r}, give text."
    if "name" not in site:
        yield "name is missing: give the cluster's."
    if ("url" in site) != ("token_file" in site):
        yield "url and token_file go together: give both, or neither, for --broker learning alone."
    if ("client_certificate" in site) != ("client_key" in site):
        yield "client_certificate and client_key go together: give both, or neither."


def _value(key: str, text: str, folder: Path) -> Any:
    """A path of a file is taken from the folder of the file that names it."""
    return text if key in _NO_FILES else folder / Path(text).expanduser()
