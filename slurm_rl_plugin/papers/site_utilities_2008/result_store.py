"""What each seed of the experiment gave, kept so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.simulator.kernel.compilation import source_digest
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import write_whole

#: Contender -> its figures and the part of the routed jobs that each site got.
SeedFigures = dict[str, tuple[dict[str, float], FloatArray]]


class SeedShelf:
    """Figures of seeds in a folder.

    Args:
        folder: of the files, one a seed; a file is of one state of the sources and of `key`.
        log: that the loads are drawn from.
        key: texts that tell what else was simulated.
    """

    def __init__(self, folder: Path, log: JobLog, key: Sequence[str]) -> None:
        digest = hashlib.sha256("\n".join([experiment_digest(), *key]).encode())
        digest.update(log.submit.tobytes() + log.run_time.tobytes() + log.user.tobytes())
        self._folder, self._digest = folder, digest.hexdigest()[:12]

    def take(self, seed: int, run: Callable[[], SeedFigures]) -> SeedFigures:
        """The figures of a seed, simulated now or before."""
        path = self._folder / f"site-utilities-{self._digest}-{seed}.json"
        if path.is_file():
            return _read(json.loads(path.read_text()))
        found = run()
        kept = {name: [figures, part.tolist()] for name, (figures, part) in found.items()}
        write_whole(path, json.dumps(kept), sync=False)
        return found


def experiment_digest() -> str:
    """Of every source that shapes what is fitted or measured."""
    return source_digest("learning", "papers", "accounting", "domain")


def _read(kept: Mapping[str, tuple[dict[str, float], list[float]]]) -> SeedFigures:
    return {name: (figures, np.array(part)) for name, (figures, part) in kept.items()}
