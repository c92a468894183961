"""Where files that are shipped beside the package are, installed or not."""

from __future__ import annotations

import site
import sys
import sysconfig
from pathlib import Path

#: Where pip puts data: into an environment, with a distribution's Python beside its own files, or
#: into the user's home.
_PREFIXES = (sys.prefix, sysconfig.get_path("data"), site.getuserbase())


def shipped_folder(name: str) -> Path:
    """A folder of the source tree, or the one that an installation made of it.

    Args:
        name: in the source tree, `deploy/pbs` for example; an installation keeps the last part.
    """
    in_tree = Path(__file__).resolve().parents[3] / name
    installed = [Path(each) / "share" / "slurm-rl" / Path(name).name for each in _PREFIXES]
    return next((each for each in (in_tree, *installed) if each.is_dir()), installed[0])
