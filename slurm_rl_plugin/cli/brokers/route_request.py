"""What the user of `slurm-rl route` gave: the command, its script, and the sites to ask."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import JobSubmission, SubmitCommand
from slurm_rl_plugin.brokers.live.remote_site import SiteAddress
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.reading.site_list import read_sites
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import ConfigurationError

#: Bytes of the longest script, slurmctld's own default limit.
LONGEST_SCRIPT = 4 * 1024 * 1024


def given_command(submission: JobSubmission, words: Sequence[str]) -> tuple[SubmitCommand, str]:
    """The command behind `--` and the text of its batch script, "" for none.

    Raises:
        ConfigurationError: no command, or its script cannot be read.
    """
    command = submission.command([*words[1:]] if words[:1] == ["--"] else [*words])
    if command.script is not None:
        return command, _script(Path(command.script))
    if not command.reads_stdin:
        return command, ""
    if sys.stdin.isatty():
        raise ConfigurationError("give a script, or --wrap: nothing comes on standard input.")
    return command, _standard_input()


def _standard_input() -> str:
    """The whole script, as it is: one that is cut off would still run."""
    found = sys.stdin.buffer.read(LONGEST_SCRIPT + 1)
    if len(found) > LONGEST_SCRIPT:
        raise ConfigurationError(
            f"the script on standard input is longer than {LONGEST_SCRIPT} bytes: shorten it."
        )
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(
            "the script on standard input is no UTF-8: give the path of a file instead."
        ) from None


def _script(path: Path) -> str:
    """The text of a script; sbatch itself looks on the PATH too, and so do we."""
    found = path
    if not path.exists() and path.parent == Path():
        folders = os.environ.get("PATH", "").split(os.pathsep)
        found = next((Path(each, path) for each in folders if Path(each, path).is_file()), path)
    try:
        with found.open(errors="replace") as file:
            return file.read(LONGEST_SCRIPT)
    except OSError as error:
        raise ConfigurationError(
            f"script {path} cannot be read ({error.strerror}): give the path of a batch script."
        ) from None


def request_of(
    submission: JobSubmission,
    command: SubmitCommand,
    script: str,
    environment: Mapping[str, str],
) -> JobRequest:
    """What the sites are told of the job.

    Raises:
        ConfigurationError: see `JobSubmission.request`.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # nobody knows this user
        user = str(os.getuid())
    return submission.request(command, script, environment, user)


def sites_of(configuration: Configuration, environment: Mapping[str, str]) -> list[SiteAddress]:
    """The sites to ask: the file of [route], then the user's own.

    Raises:
        ConfigurationError: a file is faulty, or there is no site at all.
    """
    given = configuration.sections.route.sites_file
    places = [Path(given)] if given else []
    home = environment.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    places.append(Path(home) / "slurm-rl" / "sites.toml")
    sites = read_sites([each for each in places if each.exists()])
    if not sites:
        raise ConfigurationError(
            f"there is no site to ask: write a [[site]] into {' or '.join(map(str, places))}."
        )
    return sites
