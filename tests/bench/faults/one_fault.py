"""One fault of the campaign in a process of its own.

    python -m tests.bench.faults.one_fault NAME FOLDER

Writes FOLDER/result.json and keeps the logs of the daemon and of slurmctld beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from slurm_rl_plugin.whole_file import write_whole
from tests.bench.faults.every_fault import fault_named
from tests.bench.faults.injection import inject
from tests.real.slurm_releases import RELEASES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", choices=list(RELEASES))
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    release = RELEASES.get(options.release)
    found = inject(fault_named(options.name), folder, options.seed, release=release)
    result = found.as_json() | {"release": options.release, "seed": options.seed}
    write_whole(folder / "result.json", json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
