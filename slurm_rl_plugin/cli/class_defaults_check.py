"""A check of `slurm-rl check`: whether slurmctld reads the table of class defaults at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_settings import SHOW_CONFIG, parse_submit_plugins
from slurm_rl_plugin.cli.hook_assembly import class_defaults_path
from slurm_rl_plugin.cli.site_checks import FAIL, PASS, WARN, SiteCheck
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError

_NAME = "class defaults"
_SCRIPT = "job_submit.lua"


def class_defaults_of(configuration: Configuration, runner: CommandRunner) -> Iterator[SiteCheck]:
    """One check where a table is written, none where none is."""
    table = class_defaults_path(configuration)
    if table is not None:
        try:
            loaded, folder = parse_submit_plugins(runner.read(SHOW_CONFIG))
        except BatchSystemError as error:
            yield SiteCheck(FAIL, _NAME, str(error))
        else:
            yield _script_of(table, folder / _SCRIPT, loaded="lua" in loaded)


def _script_of(table: Path, script: Path, *, loaded: bool) -> SiteCheck:
    """What stands beside slurm.conf, where this host can see that."""
    if not loaded:
        what = f"nobody reads {table}: put our script at {script}, set JobSubmitPlugins=lua in "
        return SiteCheck(WARN, _NAME, f"{what}slurm.conf and run scontrol reconfigure")
    try:
        text = script.read_text(errors="replace")
    except FileNotFoundError:
        what = f"{script} is missing, and slurmctld will not start without it where it runs on this"
        return SiteCheck(FAIL, _NAME, f"{what} host: put it back, or take JobSubmitPlugins=lua out")
    except OSError as error:
        return SiteCheck(WARN, _NAME, f"{script} cannot be read here: {error.strerror}")
    if "slurm_rl_class_defaults" not in text:
        what = f"{script} is the site's own: let it call slurm_rl_class_defaults of ours"
        return SiteCheck(WARN, _NAME, what)
    if str(table) not in text and "dofile" not in text:
        return SiteCheck(WARN, _NAME, f'{script} reads another table: set TABLE = "{table}" in it')
    return SiteCheck(PASS, _NAME, f"{script} reads {table}")
