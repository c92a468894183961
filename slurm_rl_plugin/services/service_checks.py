"""What `slurm-rl check` looks at around the daemon: files, metrics and the offer service."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import OfferingSite
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.keys.served import OfferSection
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, JobNotAccepted
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.metrics.served import ServedMetrics
from slurm_rl_plugin.metrics.textfile import check_textfile
from slurm_rl_plugin.services.configured_site import chosen_batch_system, daemon_metrics
from slurm_rl_plugin.services.offer_service import build_forwarder, offering_site, utility_model
from slurm_rl_plugin.serving.clients import read_token
from slurm_rl_plugin.serving.tls import ServedTls

#: A job that nearly every site would take.
_SMALL = {"processors": 1, "time_limit": 60}


def files_of(configuration: Configuration, now: float) -> Iterator[Check]:
    """Whether the daemon's files can be written by this user, and nothing is switched off."""
    hook = configuration.sections.hook
    for name, path in (("state_file", hook.state_file), ("audit_file", hook.audit_file)):
        if not path:
            continue
        folder = Path(path).parent
        if os.access(folder, os.W_OK | os.X_OK):
            yield Check(PASS, name, f"{folder} is writable for this user")
        else:
            yield Check(FAIL, name, f"{folder} is missing or not writable for this user")
    disable = configuration.disable_file
    found = None if disable is None else read_disable_file(disable)
    if found is not None and found.counts(now):
        yield Check(WARN, "disable_file", f"disabled {found.words}: `slurm-rl enable` ends it")
    elif disable is not None and not disable.parent.is_dir():
        yield Check(WARN, "disable_file", f"{disable.parent} is missing: make it, or nobody can")
    else:
        yield Check(PASS, "disable_file", "nothing is disabled")


def outstanding_of(configuration: Configuration) -> Check:
    """Whether a factor or a limit is outstanding in the batch system while no daemon runs."""
    state = Path(configuration.sections.hook.state_file)
    left = "; ".join(each.words for each in outstanding_at(state) if each.is_outstanding())
    runs = daemon_runs(state)
    if left and configuration.sections.hook.beside_controllers:
        what = f"{left}: the daemon next to the controller in charge restores it"
        return Check(WARN if runs is not True else PASS, "outstanding", what)
    if left and runs is None:
        what = f"{left}; this user may not see whether a daemon runs"
        return Check(WARN, "outstanding", what)
    if left and runs is False:
        what = f"{left}, and no daemon is running to restore it"
        return Check(FAIL, "outstanding", f"{what}: start it, or run `slurm-rl release`")
    return Check(PASS, "outstanding", "no factor or limit is in the batch system without a daemon")


def metrics_of(configuration: Configuration) -> Iterator[Check]:
    """Whether what [metrics] names can be used: a daemon would not start with what cannot."""
    yield _port_of(configuration)
    textfile, tls = configuration.sections.metrics.textfile, configuration.tls_of("metrics")
    if textfile:
        yield _usable("metrics textfile", lambda: check_textfile(Path(textfile)))
    if tls is not None:
        yield _usable("metrics tls", lambda: ServedTls(tls))


def _usable(name: str, use: Callable[[], object], fine: str = "can be used") -> Check:
    try:
        use()
    except ConfigurationError as error:
        return Check(FAIL, name, str(error))
    return Check(PASS, name, fine)


def _port_of(configuration: Configuration) -> Check:
    """Whether the port of the metrics is free, or ours."""
    where = configuration.sections.metrics
    address, port = where.address, where.port
    if port == 0:
        return Check(
            WARN, "metrics port", "0 is any free one, which nobody can ask: set [metrics] port"
        )
    fault = why_not_listen(address, port)
    if fault is None:
        return Check(PASS, "metrics port", f"{port} is free")
    if isinstance(daemon_metrics(configuration), ServedMetrics):
        return Check(PASS, "metrics port", f"{port}: a daemon of ours answers there")
    return Check(FAIL, "metrics port", f"{address}:{port}: {fault}; set [metrics] port to another")


def why_not_listen(address: str, port: int) -> str | None:
    """Why nobody could listen there now; None where one could."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon does
            probe.bind(target)
    except OSError as error:
        return str(error.strerror)
    return None


def offer_checks(configuration: Configuration, now: float) -> Iterator[Check]:
    """Token, certificate, port, and whether this user may ask for the start of a job."""
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
    tls = configuration.tls_of("offer")
    if tls is None:
        yield Check(PASS, "offer tls", "none, on the loopback address only")
    else:
        fine = f"{tls.certificate} and its key can be used"
        yield _usable("offer tls", lambda: ServedTls(tls), fine)
    yield _port(given.address, given.port)
    if given.forward_hops:
        places = configuration.sections.route.sites_file
        fine = f"to the sites of {places}, {given.forward_hops} hops"
        yield _usable("offer forwarding", lambda: build_forwarder(configuration, site), fine)
    if given.utility_model:
        fine = f"{given.utility_model} tells what the site publishes"
        yield _usable("offer utilities", lambda: utility_model(configuration), fine)
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


def _port(address: str, port: int) -> Check:
    fault = why_not_listen(address, port) if port else None
    if fault is None:
        return Check(PASS, "offer port", f"{port} is free")
    return Check(WARN, "offer port", f"{address}:{port}: {fault}; right if the service runs")


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
