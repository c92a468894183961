"""Sections and keys of earlier releases that are gone, and what a site does instead."""

from __future__ import annotations

#: `section` or `section.key` -> what follows its name in a warning: what it was, that it is gone,
#: and what to do.
REMOVED: dict[str, str] = {
    "hook.class_defaults_file": "named the table from which job_submit.lua gave new jobs a factor; "
    "it is gone: new jobs get their factor in the next cycle. Remove this line, and take our "
    "job_submit.lua out of JobSubmitPlugins in slurm.conf before you delete the script.",
    "plan": "gave the scheduler predicted run times; it is gone, because jobs waited just as long "
    "with it. Remove the section.",
}


def removal_of(section: str, name: str = "") -> str | None:
    """Why a section or a key no longer exists; None if no release had it."""
    return REMOVED.get(section) or REMOVED.get(f"{section}.{name}")
