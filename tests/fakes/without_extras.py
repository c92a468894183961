"""Our program as a head node has it: none of the libraries of the extras can be imported."""

from __future__ import annotations

import os
import subprocess
import sys

from slurm_rl_plugin.cli.entry import EXTRAS
from tests.architecture.markdown_documents import TOP

#: Words are modules that are not there, then `--`, then those of our program.
_PROGRAM = """
import sys
end = sys.argv.index("--")
class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in sys.argv[1:end]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from slurm_rl_plugin.cli.entry import main
sys.exit(main(sys.argv[end + 1 :]))
"""


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, since this one may have loaded some of them."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *EXTRAS, "--", *words],
        env={**os.environ, "PYTHONPATH": str(TOP), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
