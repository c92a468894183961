"""What the users of one login node tell each other of sites: a folder with a file of each user.

The administrator makes the folder, root's and sticky, so that nobody removes the file of another
user. A file counts where its owner is the user whose number is its name: nobody speaks for another.
Of what the others say of a site the median counts: each user has one voice, whatever is in the
file, and fewer than half of them cannot move it beyond what the rest say.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from slurm_rl_plugin.brokers.learning_agent import FADING, MetAtSite
from slurm_rl_plugin.brokers.live.strict_json import strict_object
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.whole_file import own_file, write_whole

#: Bytes of a user's file, files that are looked at, and sites of a file, at most.
LONGEST_VOICE, MOST_VOICES, MOST_SITES = 16384, 5000, 100
#: One name a user: his number without a leading zero.
_VOICE = re.compile(r"(0|[1-9][0-9]{0,9})\.json")
#: Seconds of the longest wait that anybody may tell of.
LONGEST_WAIT = FADING
_CLOCKS_DIFFER = HOUR


@dataclass(frozen=True, slots=True)
class SharedExperience:
    """The folder, as one user sees it.

    Attributes:
        folder: of the files.
        user: number of the user.
    """

    folder: Path
    user: int

    def waits(self, now: float) -> dict[str, float]:
        """Site -> median of the mean waits that other users met there, seconds, fading with time.

        What is older than FADING does not count, nor what its user will have heard in the future.

        Raises:
            OSError: the folder cannot be read, or users could replace files of each other in it.
        """
        self._check()
        shared: dict[str, list[float]] = {}
        with os.scandir(self.folder) as entries:
            for entry in islice(entries, MOST_VOICES):
                found = _VOICE.fullmatch(entry.name)
                if found is not None and (user := int(found[1])) != self.user:
                    for site, wait in _voice(Path(entry.path), user, now):
                        shared.setdefault(site, []).append(wait)
        return {site: median(waits) for site, waits in shared.items()}

    def tell(self, met: Mapping[str, MetAtSite]) -> None:
        """Write what this user met, for all who may enter the folder: waits and times, no job.

        Raises:
            OSError: as `waits`, or another user has laid something in the file's place.
        """
        self._check()
        newest = sorted(met.items(), key=lambda each: -each[1].heard)
        sites = {
            name: {"mean_wait": each.mean_wait, "heard": each.heard}
            for name, each in newest[:MOST_SITES]
            if each.count
        }
        path = self.folder / f"{self.user}.json"
        write_whole(path, json.dumps({"sites": sites}), sync=False, for_all=True)

    def _check(self) -> None:
        mode = self.folder.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise PermissionError(0, "its sticky bit is missing: chmod +t", str(self.folder))


def _voice(path: Path, user: int, now: float) -> Iterator[tuple[str, float]]:
    """Site and wait of each that a user's own file tells of; nothing of any other file."""
    try:
        with os.fdopen(own_file(path, owners=frozenset({user})), "rb") as file:
            if os.fstat(file.fileno()).st_uid != user:
                return
            sites = strict_object(file.read(LONGEST_VOICE))["sites"]
        found = [(site, float(of["mean_wait"]), float(of["heard"])) for site, of in sites.items()]
    except (OSError, RequestRefused, LookupError, TypeError, ValueError, AttributeError):
        return
    for site, wait, heard in found[:MOST_SITES]:
        if math.isfinite(wait) and -_CLOCKS_DIFFER <= now - heard <= FADING:
            yield site, min(max(wait, 0.0), LONGEST_WAIT) * math.exp(-(now - heard) / FADING)
