"""Slurm's commands as the daemon finds them, each of which can be made to misbehave meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("scontrol", "squeue", "sprio", "sshare", "sinfo", "sdiag", "sacct")
#: Runs the tampered program where there is one; `$0` is the command's own name.
_WRAPPER = """#!/bin/sh
[ -x {tampered} ] && exec {tampered} "$@"
exec {real} "$@"
"""
#: Passes what comes on standard input, and lets something happen before, amid or after the writes.
_AT_A_WRITE = """#!/bin/sh
[ $# -gt 0 ] && exec {real} "$@"
cat >{lines}.$$
if mkdir {once} 2>/dev/null; then
    all=$(wc -l <{lines}.$$) first=$(({numerator} * all / 2))
    [ $first -eq 0 ] || head -n $first {lines}.$$ | {real}
    {happens}
    [ $first -eq $all ] || tail -n +$((first + 1)) {lines}.$$ | {real}
else
    {real} <{lines}.$$
fi
status=$?
rm -f {lines}.$$
exit $status
"""
#: Halves of a burst that are written first.
BEFORE, AMID, AFTER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TamperedCommands:
    """Wrappers in `folder`/bin, which comes first in the daemon's PATH; see `COMMANDS`."""

    folder: Path

    def make(self, path: str) -> str:
        """Write the wrappers; the PATH with them.

        Args:
            path: PATH on which the real ones are found.
        """
        for name in ("bin", "tampered"):
            (self.folder / name).mkdir(parents=True)
        for command in COMMANDS:
            real = shutil.which(command, path=path)
            assert real is not None, command
            tampered = self.folder / "tampered" / command
            self._script("bin", command, _WRAPPER.format(tampered=tampered, real=real))
            (self.folder / "bin" / f"real-{command}").symlink_to(real)
        return f"{self.folder}/bin:{path}"

    def replace(self, command: str, script: str) -> None:
        """Let the daemon's calls of a command run a shell script instead."""
        self._script("tampered", command, f"#!/bin/sh\n{script}\n")

    def at_the_next_write(self, when: int, *happens: str) -> None:
        """Let shell commands run once BEFORE, AMID or AFTER the next burst of changes."""
        once = self.folder / "once"
        if once.exists():
            once.rmdir()
        script = _AT_A_WRITE.format(
            real=self.real("scontrol"),
            lines=self.folder / "lines",
            once=once,
            numerator=when,
            happens="\n    ".join(happens),
        )
        self._script("tampered", "scontrol", script)

    @property
    def written(self) -> bool:
        """Whether what was to happen at a write has begun to."""
        return (self.folder / "once").exists()

    def real(self, command: str) -> Path:
        """The untampered one."""
        return self.folder / "bin" / f"real-{command}"

    def mend(self, commands: Sequence[str] = COMMANDS) -> None:
        """Let them be what they are."""
        for command in commands:
            (self.folder / "tampered" / command).unlink(missing_ok=True)

    def _script(self, folder: str, name: str, text: str) -> None:
        beside = self.folder / f".{name}"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(self.folder / folder / name)
