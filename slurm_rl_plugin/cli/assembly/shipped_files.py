"""Where files that are shipped beside the package are, installed or not."""

from __future__ import annotations

import sys
from pathlib import Path

_INSTALLED = Path(sys.prefix) / "share" / "slurm-rl"


def shipped_folder(name: str) -> Path:
    """A folder of the source tree, or the one that an installation made of it.

    Args:
        name: in the source tree, `deploy/pbs` for example; an installation keeps the last part.
    """
    in_tree = Path(__file__).resolve().parents[3] / name
    return in_tree if in_tree.is_dir() else _INSTALLED / Path(name).name
