"""Asks all sites at once, and waits for none of them longer than it may take."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.brokers.live.remote_site import RemoteSite
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import SlurmRLError


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswer:
    """What came of asking one site; a `Site` for brokers that has answered already.

    Attributes:
        name: of the site.
        promised: its offer; None where it makes none.
        why_not: in words; "" where there is an offer.
    """

    name: str
    promised: SiteOffer | None = None
    why_not: str = ""

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """The offer already received; `request` is the one that the site was asked about."""
        del request
        return self.promised


def ask_sites(
    sites: Sequence[RemoteSite],
    request: JobRequest,
    timeout: float,
    monotonic: Callable[[], float],
) -> list[SiteAnswer]:
    """What each site answers, in their order.

    A site that lets every step of its answer take as long as it may is not waited for: its thread
    ends with the process.

    Args:
        sites: to be asked.
        request: of the job.
        timeout: seconds for all of it.
        monotonic: seconds.
    """
    end = monotonic() + timeout
    heard: queue.SimpleQueue[SiteAnswer] = queue.SimpleQueue()
    for site in sites:
        asks = threading.Thread(target=_ask, args=(site, request, heard), daemon=True)
        asks.start()
    found: dict[str, SiteAnswer] = {}
    while len(found) < len(sites) and (left := end - monotonic()) > 0.0:
        try:
            answer = heard.get(timeout=left)
        except queue.Empty:
            break
        found[answer.name] = answer
    late = f"no answer in {timeout:g} s"
    return [found.get(each.name) or SiteAnswer(name=each.name, why_not=late) for each in sites]


def _ask(site: RemoteSite, request: JobRequest, heard: queue.SimpleQueue[SiteAnswer]) -> None:
    try:
        heard.put(SiteAnswer(name=site.name, promised=site.answer(request)))
    except SlurmRLError as error:
        heard.put(SiteAnswer(name=site.name, why_not=str(error)))
    except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
        heard.put(SiteAnswer(name=site.name, why_not=f"asking it failed: {error!r}"))
