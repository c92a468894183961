"""The drawing of rooms in docs/rooms.md; `python -m tests.architecture.rooms` writes it anew."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.markdown_documents import TOP

PAGE = TOP / "docs/rooms.md"
_PACKAGE = TOP / "slurm_rl_plugin"
_DRAWING = re.compile(r"(?<=```text rooms\n).*?(?=```)", re.DOTALL)
#: Column at which what a room is for begins.
_COLUMN = 32


def drawing() -> str:
    """A line for each folder of the package: its name, and the first line of what it says."""
    rooms = [each.parent for each in sorted(_PACKAGE.rglob("__init__.py"))]
    return "".join(_line(room) for room in sorted(rooms) if room != _PACKAGE)


def drawn() -> str:
    """What the page shows."""
    (shown,) = _DRAWING.findall(PAGE.read_text())
    return str(shown)


def _line(room: Path) -> str:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    depth = len(room.relative_to(_PACKAGE).parts) - 1
    return f"{'  ' * depth + room.name:<{_COLUMN}}{text.partition(chr(10))[0].removesuffix('.')}\n"


if __name__ == "__main__":
    PAGE.write_text(_DRAWING.sub(lambda _: drawing(), PAGE.read_text()))
