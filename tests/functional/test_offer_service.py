"""The offer service as a process of its own, over a fake Slurm: what it answers, and to whom."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain.site import PublishedUtilities
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster
from tests.functional.small_site import write_site_utility_model
from tests.functional.typed import TABLES, rows_of
from tests.real.offer_under_test import OfferService, offer_service

#: Many requests come from this one address.
SETTINGS = """
requests_per_minute = 1000000
keep = 0
busy_share = 1
price = "processors * run_time / 3600"
"""
JOB = {"processors": 4, "time_limit": 1800, "partition": "batch", "account": "physics"}


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeCluster:
    return FakeCluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def shared_service(
    fake: FakeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OfferService]:
    environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
    model = write_site_utility_model(tmp_path_factory.mktemp("model") / "site.onnx")
    more = f'{SETTINGS}utility_model = "{model}"\n'
    with offer_service(environment, tmp_path_factory.mktemp("offer"), more) as service:
        yield service
        assert service.stop() == 0
        assert "Traceback" not in service.log


@pytest.fixture
def service(shared_service: OfferService, fake: FakeCluster) -> Iterator[OfferService]:
    yield shared_service
    fake.set(wait=0, modes={})


def ask(
    service: OfferService,
    body: bytes | str | dict[str, Any],
    *,
    method: str = "POST",
    path: str = "/offer",
    **headers: str,
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of one answer."""
    context = ssl.create_default_context(cafile=service.certificate)
    connection = HTTPSConnection("localhost", service.port, timeout=20, context=context)
    content = json.dumps(body) if isinstance(body, dict) else body
    if "Authorization" not in headers:
        headers["Authorization"] = f"Bearer {service.token}"
    connection.request(method, path, body=content, headers=headers)
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    assert isinstance(document, dict)
    return answer.status, document


def test_an_offer_tells_start_utility_price_and_processors(
    service: OfferService, fake: FakeCluster
) -> None:
    fake.set(wait=3600)
    now = time.time()  # noqa: TID251 - the service's clock
    status, offer = ask(service, {**JOB, "account": "chemistry"})
    assert status == 200
    assert offer["site"] == "trial"
    assert not offer["published"]  # Slurm knows no such account
    assert offer["expected_start"] == pytest.approx(now + 3600, abs=20)
    assert offer["processors"] == 12
    assert offer["price"] == pytest.approx(2.0)
    # 2008, eq. 3: a batch job, an hour late on top of its half, with a minute of allowance
    assert offer["utility"] == pytest.approx((5400 / 1860) ** -0.3, abs=0.003)


def test_the_sites_own_utilities_are_published_and_offered(
    service: OfferService, fake: FakeCluster
) -> None:
    """Of the fake cluster's accounts physics has used more than its share and biology less."""
    status, document = ask(service, b"", method="GET", path="/utilities")
    assert status == 200, service.log
    assert document.pop("version") == 1
    published = PublishedUtilities(**document)
    assert published.site == "trial"
    assert published.fresh_at(time.time())  # noqa: TID251 - the service's clock
    assert {*published.utilities["batch"]} >= {"physics", "biology"}
    for account, more in (("physics", False), ("biology", True)):
        offer = ask(service, {**JOB, "account": account})[1]
        assert offer["published"]
        assert offer["utility"] == published.of("batch", account)
        assert (offer["utility"] > 0.5) is more
    fake.set(wait=36000)  # the long-term utility, not that of this wait
    assert ask(service, {**JOB, "account": "biology"})[1]["utility"] == offer["utility"]


def test_a_formula_of_the_request_values_the_offer(
    service: OfferService, fake: FakeCluster
) -> None:
    fake.set(wait=600)
    status, offer = ask(service, {**JOB, "formula": "100 * utility - wait / 60 - price"})
    assert status == 200
    expected = 100 * offer["utility"] - 10 - offer["price"]
    assert offer["value"] == pytest.approx(expected, abs=0.5)


def test_a_site_that_forwards_nothing_answers_for_itself(service: OfferService) -> None:
    status, offer = ask(service, {**JOB, "request_id": "12345678", "hops": 3, "time_to_live": 5})
    assert (status, offer["site"], "forwarded" in offer) == (200, "trial", False)


def test_the_price_may_name_the_schedule(fake: FakeCluster, tmp_path: Path) -> None:
    environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
    priced = SETTINGS.replace('"processors * run_time / 3600"', '"100 * utilization"')
    fake.set(wait=0)
    with offer_service(environment, tmp_path, priced) as service:
        status, offer = ask(service, {**JOB, "formula": "-StartTime - 2*JobCost"})
        assert status == 200, service.log
        assert 0.0 < offer["price"] <= 100.0
        assert offer["value"] == pytest.approx(-2 * offer["price"], abs=60.0)
        fake.break_command("squeue", "down")
        assert ask(service, JOB)[0] == 200  # the schedule is taken as it was for a minute


def test_a_job_that_the_site_would_not_take_is_refused_in_slurms_words(
    service: OfferService, fake: FakeCluster
) -> None:
    fake.set(wait="Invalid qos specification")
    status, document = ask(service, JOB)
    assert (status, document) == (
        409,
        {"error": "Slurm would not take the job: Invalid qos specification."},
    )
    fake.set(wait=0)
    assert ask(service, {**JOB, "partition": "nope"})[0] == 409
    assert ask(service, {**JOB, "partition": "short", "time_limit": 7200})[0] == 409


NO_REQUESTS = (
    *(b"", b"\xff\xfe", b"[1]", b"[" * 5000, b'{"a":' * 900, b'{"processors": NaN}', b"{}"),
    *(b'{"processors": 1, "processors": 2}', b'{"processors": ' + b"9" * 5000 + b"}"),
)
LONG = (
    *({"name": "x" * 201}, {"formula": "(" * 200 + "1" + ")" * 200}, {"formula": "1+" * 2000}),
    {"request_id": "x" * 65, "hops": 1, "time_to_live": 5},
)
REFUSED = [
    *((401, JOB, {"Authorization": each}) for each in ("", "Bearer x", "Basic eDp5")),
    (411, b"", {"Transfer-Encoding": "chunked"}),
    (411, b"{}", {"Content-Length": "-5"}),
    *((413, b"x" * length, {}) for length in (9000, 800_000)),
    *((400, each, {}) for each in NO_REQUESTS),
    *((400, JOB | each, {}) for each in LONG),
    *((400, JOB | json.loads(each), {}) for each in TABLES["offer, what a request adds"]),
]


@pytest.mark.parametrize(("status", "body", "headers"), REFUSED)
def test_what_is_faulty_is_refused_in_one_sentence(
    service: OfferService, status: int, body: Any, headers: dict[str, str]
) -> None:
    found, document = ask(service, body, **headers)
    assert found == status, document
    assert list(document) == ["error"]
    assert document["error"].endswith(".")
    assert "\n" not in document["error"]


def test_each_page_has_one_method_and_there_is_no_other(service: OfferService) -> None:
    assert ask(service, JOB, path="/")[0] == 404
    assert ask(service, JOB, path="/offer/../metrics")[0] == 404
    unbound = (409, {"error": "no offer of this site binds."})
    assert ask(service, JOB, path="/accept") == unbound
    assert ask(service, JOB, path="/utilities")[0] == 405
    assert ask(service, b"", method="GET", path="/utilities", Authorization="")[0] == 401
    for method in ("GET", "PUT", "DELETE", "X" * 50):
        assert ask(service, JOB, method=method)[0] == 405


def test_a_new_token_counts_at_once(service: OfferService) -> None:
    old, path = service.token, service.folder / "token"
    path.write_text("n" * 40)
    assert ask(service, JOB, Authorization=f"Bearer {old}")[0] == 401
    assert ask(service, JOB)[0] == 200
    path.unlink()
    assert ask(service, JOB, Authorization="Bearer " + "n" * 40)[0] == 401
    path.write_text(old)
    assert ask(service, JOB)[0] == 200


def test_a_batch_system_that_does_not_answer_is_left_alone_for_a_while(
    fake: FakeCluster, tmp_path: Path
) -> None:
    environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
    with offer_service(environment, tmp_path, SETTINGS.replace("keep = 0", "keep = 9")) as service:
        fake.break_command("sinfo", "down")
        assert ask(service, JOB) == (503, {"error": "the batch system does not answer."})
        fake.set(modes={})
        status, document = ask(service, {**JOB, "name": "another"})
        assert (status, "ask again" in document["error"]) == (503, True)


@rows_of("offer, lines of the configuration")
def test_it_does_not_start_where_it_would_be_no_good(
    fake: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    said: str,
) -> None:
    fake.enter(monkeypatch)
    (tmp_path / "short").write_text("secret\n")
    path = tmp_path / "site.toml"
    path.write_text("[offer]\nport = 0\n" + words.replace("TOP", str(TOP)))
    assert main(["offer", "--config", str(path)]) == 2
    assert said in capsys.readouterr().err
