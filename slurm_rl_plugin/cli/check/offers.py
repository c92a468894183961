"""Checks of `slurm-rl check` on the offer service; none where a site does not configure it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import OfferingSite
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.cli.assembly.batch_system import chosen_batch_system
from slurm_rl_plugin.cli.brokers.offer_assembly import build_forwarder, offering_site, utility_model
from slurm_rl_plugin.cli.check.surroundings import why_not_listen
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.keys.offers import OfferSection
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, JobNotAccepted
from slurm_rl_plugin.serving.clients import read_token
from slurm_rl_plugin.serving.tls import ServedTls

#: A job that nearly every site would take.
_SMALL = {"processors": 1, "time_limit": 60}


def offer_checks(configuration: Configuration, now: float) -> Iterator[Check]:
    """Token, certificate, port, and whether this user may ask for the start of a job.

    Args:
        configuration: of the site.
        now: seconds since the epoch.
    """
    given = configuration.sections.offer
    # the file of the package spells every default out
    if given == OfferSection() and not Path(given.token_file).exists():
        return
    try:
        site = offering_site(configuration)
    except ConfigurationError as error:
        yield Check(FAIL, "offer", str(error))
        return
    yield _token(Path(given.token_file))
    yield _tls(configuration)
    yield _port(given.address, given.port)
    if given.forward_hops:
        yield _forwarding(configuration, site)
    if given.utility_model:
        yield _utility_model(configuration)
    yield _will_run(configuration, site, now)


def _token(path: Path) -> Check:
    try:
        read_token(path)
        mode = path.stat().st_mode
    except (ConfigurationError, OSError) as error:
        return Check(FAIL, "offer token", str(error))
    if mode & stat.S_IROTH:
        return Check(WARN, "offer token", f"everybody may read {path}: chmod o-r, or mean it")
    return Check(PASS, "offer token", f"{path} holds one")


def _tls(configuration: Configuration) -> Check:
    files = configuration.offer_tls
    if files is None:
        return Check(PASS, "offer tls", "none, on the loopback address only")
    try:
        ServedTls(files)
    except ConfigurationError as error:
        return Check(FAIL, "offer tls", str(error))
    return Check(PASS, "offer tls", f"{files.certificate} and its key can be used")


def _port(address: str, port: int) -> Check:
    fault = why_not_listen(address, port) if port else None
    if fault is None:
        return Check(PASS, "offer port", f"{port} is free")
    return Check(WARN, "offer port", f"{address}:{port}: {fault}; right if the service runs")


def _forwarding(configuration: Configuration, site: OfferingSite) -> Check:
    try:
        build_forwarder(configuration, site)
    except ConfigurationError as error:
        return Check(FAIL, "offer forwarding", str(error))
    sections = configuration.sections
    what = f"to the sites of {sections.route.sites_file}, {sections.offer.forward_hops} hops"
    return Check(PASS, "offer forwarding", what)


def _utility_model(configuration: Configuration) -> Check:
    try:
        utility_model(configuration)
    except ConfigurationError as error:
        return Check(FAIL, "offer utilities", str(error))
    path = configuration.sections.offer.utility_model
    return Check(PASS, "offer utilities", f"{path} tells what the site publishes")


def _will_run(configuration: Configuration, site: OfferingSite, now: float) -> Check:
    """Ask as the service does: accounts and QOS are those of the user who asks."""
    try:
        start = site.expected_start(job_request(_SMALL))
    except JobNotAccepted as error:
        what = f"{error}; run it as the service's user, and give him an account in [offer] account"
        return Check(FAIL, "offer test", what)
    except BatchSystemError as error:
        return Check(FAIL, "offer test", str(error))
    if start is None:
        title = chosen_batch_system(configuration).kind.title
        return Check(WARN, "offer test", f"{title} tells no time for a job of one processor")
    wait = max(start - now, 0.0)
    return Check(PASS, "offer test", f"a job of one processor would start in {wait:.0f} s")
