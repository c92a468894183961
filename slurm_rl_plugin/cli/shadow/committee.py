"""`shadow-report --committee`: what stands in its way is said before the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_rl_plugin.cli.argument_types.results import result_file
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole

if TYPE_CHECKING:  # it imports the simulator, which a head node need not have
    from slurm_rl_plugin.cli.evaluate.study.site_replay import SiteReplay

#: Writes the page of a replay, with what is wrong with what was recorded.
PageWriter = Callable[["SiteReplay", str | None], None]


def page_writer(path: Path | None, *, is_replayed: bool) -> PageWriter | None:
    """What writes the committee's page; None where nobody asked for one.

    Args:
        path: of the page.
        is_replayed: whether there is to be a replay.

    Raises:
        ConfigurationError: there can be no page, or no place for it.
        ModuleNotFoundError: a library of the extras is missing.
    """
    if path is None:
        return None
    if not is_replayed:
        raise ConfigurationError("--committee needs the replay: leave out --no-replay.")
    page = result_file("--committee", path)
    from slurm_rl_plugin.cli.what_if.committee.two_cases import (  # noqa: PLC0415 - the extras
        replay_page,
    )

    def write(found: SiteReplay, warning: str | None) -> None:
        write_whole(page, replay_page(found, warning))

    return write
