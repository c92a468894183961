"""`slurm-rl route` over offer services of fake clusters: ranking, skipping, submitting."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.running_daemon import free_port
from tests.functional.typed import Typed, rows_of
from tests.real.offer_under_test import OfferService, offer_service
from tests.real.two_sites import write_sites

QUICK = "requests_per_minute = 1000000\nkeep = 0\nbusy_share = 1"
JOB = ("--", "sbatch", "-n", "2", "--wrap=true")


class Sites:
    """Two fake clusters with a service each, and the fake Slurm of the user."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.home = folder / "home"
        self.own = self._fake(folder / "own")
        self.clusters: dict[str, FakeCluster] = {}
        self.services: dict[str, OfferService] = {}
        for name in ("near", "far"):
            fake = self.clusters[name] = self._fake(folder / name)
            fake.set(settings={"ClusterName": name})
            environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
            self.services[name] = stack.enter_context(
                offer_service(environment, folder / name / "offer", QUICK)
            )
        write_sites(self.file, self.services)

    @property
    def file(self) -> Path:
        return self.home / "slurm-rl" / "sites.toml"

    @property
    def submitted(self) -> list[list[str]]:
        """Words of every submission."""
        path = Path(self.own.env["FAKE_SLURM_STATE"] + ".submitted")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _fake(self, folder: Path) -> FakeCluster:
        folder.mkdir()
        return FakeCluster(folder)


@pytest.fixture(scope="module")
def shared_sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(tmp_path_factory.mktemp("sites"), stack)


@pytest.fixture
def sites(shared_sites: Sites) -> Sites:
    """Nothing waits, nothing was submitted, nothing is remembered."""
    for fake in (shared_sites.own, *shared_sites.clusters.values()):
        fake.set(wait=0, modes={}, refusals={}, accounting=[])
    Path(shared_sites.own.env["FAKE_SLURM_STATE"] + ".submitted").unlink(missing_ok=True)
    (shared_sites.home / "slurm-rl" / "routed-jobs.json").unlink(missing_ok=True)
    write_sites(shared_sites.file, shared_sites.services)
    return shared_sites


@pytest.fixture
def route(
    sites: Sites, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    homes = {"XDG_CONFIG_HOME": str(sites.home), "XDG_STATE_HOME": str(sites.home)}
    for name, value in {**sites.own.env, **homes}.items():
        monkeypatch.setenv(name, value)

    return Typed(capsys, "route")


def test_the_table_has_the_earliest_first(sites: Sites, route: Typed) -> None:
    sites.clusters["near"].set(wait=5400)
    status, out, _ = route(*JOB)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].split() == ["SITE", "START", "WAIT", "UTILITY", "PRICE", "REASON"]
    assert [line.split()[0] for line in lines[1:]] == ["far", "near"]
    assert "would start it first" in lines[1]
    assert "would start it 90 min later" in lines[2]
    assert sites.submitted == []


def test_json_is_one_document_with_offers_and_reasons(sites: Sites, route: Typed) -> None:
    sites.clusters["far"].set(wait="Requested node configuration is not available")
    status, out, _ = route("--json", *JOB)
    document = json.loads(out)
    assert status == 0
    (first,) = document["ranking"]
    assert first["site"] == "near"
    assert first["processors"] == 12
    (skipped,) = document["skipped"]
    assert skipped["site"] == "far"
    assert "Requested node configuration is not available" in skipped["why"]


def test_other_brokers_rank_the_same_offers(sites: Sites, route: Typed) -> None:
    sites.clusters["near"].set(wait=5400)
    words = ("--json", "--broker", "market", "--formula", "wait", *JOB)
    (first, second) = json.loads(route(*words)[1])["ranking"]
    assert (first["site"], second["site"]) == ("near", "far")
    assert first["merit"] == pytest.approx(5400, abs=20)
    paper = ("--json", "--broker", "market", "--formula", "-StartTime - 2*JobCost", *JOB)
    (first, second) = json.loads(route(*paper)[1])["ranking"]
    assert (first["site"], second["site"]) == ("far", "near")
    assert second["merit"] == pytest.approx(-5400, abs=20)
    (first, second) = json.loads(route("--json", "--broker", "utility", *JOB)[1])["ranking"]
    assert (first["site"], second["site"]) == ("far", "near")
    assert route("--broker", "market", "--formula", "9**9**9", *JOB)[0] == 2


def test_sites_forward_a_request_within_hops_and_once(
    sites: Sites, route: Typed, tmp_path: Path
) -> None:
    """The user knows east alone, east knows west and itself, west knows east and far."""
    ports = {name: free_port() for name in ("east", "west")}
    lists = {name: tmp_path / f"{name}.toml" for name in ports}
    far = {name: tmp_path / name / "offer" for name in ports} | {
        "far": sites.services["far"].folder
    }
    reached = ports | {"far": sites.services["far"].port}
    with ExitStack() as stack:
        services = {}
        for name, known in (("east", ("west", "east")), ("west", ("east", "far"))):
            lists[name].write_text(
                "".join(
                    f'[[site]]\nname = "{each}"\nurl = "https://localhost:{reached[each]}"\n'
                    f'token_file = "{far[each]}/token"\nca = "{far[each]}/offer.pem"\n'
                    for each in known
                )
            )
            (tmp_path / name).mkdir()
            fake = FakeCluster(tmp_path / name)
            fake.set(settings={"ClusterName": name}, wait=600)
            environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
            more = f'{QUICK}\nforward_hops = 3\n[route]\nsites_file = "{lists[name]}"\n'
            services[name] = stack.enter_context(
                offer_service(environment, far[name], more, port=ports[name])
            )
        write_sites(sites.file, {"east": services["east"]})
        own = tmp_path / "own.toml"
        both, everywhere = ["east", "west"], ["east", "far", "west"]
        for hops, found in enumerate([["east"], both, everywhere, everywhere]):
            own.write_text(f'[route]\nsites_file = ""\nhops = {hops}\n')
            status, out, err = route("--config", str(own), "--json", *JOB)
            document = json.loads(out)
            assert status == 0, err
            assert sorted(each["site"] for each in document["ranking"]) == found
            assert document["skipped"] == []
        assert document["ranking"][0]["site"] == "far"  # only this site has no pending job
        assert "site=east reason=this request was here before" in services["west"].log
        status, out, _ = route("--config", str(own), "--submit", *JOB)
        assert sites.submitted == [["--clusters=far", *JOB[2:]]]
        assert "Traceback" not in services["west"].log + services["east"].log


def test_the_best_is_submitted_to_with_the_words_of_the_user(sites: Sites, route: Typed) -> None:
    sites.clusters["near"].set(wait=60)
    status, out, _ = route("--submit", *JOB)
    assert status == 0
    assert sites.submitted == [["--clusters=far", *JOB[2:]]]
    assert out.splitlines()[-1] == "Submitted batch job 77 on cluster far"
    kept = json.loads((sites.home / "slurm-rl" / "routed-jobs.json").read_text())
    assert [(each["site"], each["job_id"]) for each in kept["on_their_way"]] == [("far", 77)]


def test_an_offer_binds_until_its_job_is_there_and_is_taken_back(
    sites: Sites, route: Typed, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    fake = FakeCluster(tmp_path / "site")
    fake.set(settings={"ClusterName": "site"}, wait=600)
    state = tmp_path / "bound.json"
    more = f'{QUICK}\nbind_seconds = 300\nbind_part = 0.5\nbind_file = "{state}"\n'
    environment = {**os.environ, **fake.env, "PYTHONPATH": str(TOP)}
    own = tmp_path / "own.toml"
    own.write_text('[route]\nsites_file = ""\nbind = true\n')
    job = ("--", "sbatch", "-n", "2", "-t", "10", "-A", "physics", "--wrap=true")

    def stand() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = fake.state["reservations"]
        return found

    with offer_service(environment, tmp_path / "offer", more) as service:
        write_sites(sites.file, {"site": service})
        status, _, err = route("--config", str(own), "--submit", *job)
        assert status == 0, err + service.log
        ((name, made),) = stand().items()
        assert sites.submitted == [["--clusters=site", f"--reservation={name}", *job[2:]]]
        assert (made["accounts"], made["tres"], made["flags"]) == (
            "physics",
            "cpu=2",
            "PURGE_COMP=00:05:00",
        )
        assert name in state.read_text()
        sites.own.set(denied=True)
        status, _, err = route("--config", str(own), "--submit", *job)
        sites.own.set(denied=False)
        assert (status, "Access denied" in err) == (0, True)
        assert sites.submitted[1] == ["--clusters=site", *job[2:]]  # not to another site
        status, _, err = route("--config", str(own), "--submit", "--", *job[1:4], "--wrap=true")
        assert status == 0
        assert "does not bind its offer: an offer binds for an account" in err
        service.process.kill()  # the reservation stays, and its name on file
        service.process.wait(timeout=10)
    assert name in stand()
    assert len(stand()) == 2
    with offer_service(environment, tmp_path / "offer", more.replace("= 300", "= 0")) as service:
        end = time.monotonic() + 30
        while (stand() or name in state.read_text()) and time.monotonic() < end:
            time.sleep(0.2)
        assert stand() == {}
        assert name not in state.read_text()
        assert service.stop() == 0


def test_the_next_one_is_tried_only_where_slurm_surely_refused(sites: Sites, route: Typed) -> None:
    sites.clusters["near"].set(wait=60)
    sites.own.set(refusals={"far": "Invalid account or account/partition combination specified"})
    status, out, err = route("--submit", *JOB)
    assert status == 0
    assert [words[0] for words in sites.submitted] == ["--clusters=near"]
    assert "far did not accept the job" in err
    assert "Invalid account" in err
    assert out.splitlines()[-1].endswith("on cluster near")
    sites.own.set(refusals={"far": "Socket timed out on send/recv operation"})
    assert "the job may be on far, look with `squeue -M far --me`" in route.failing(
        "--submit", *JOB
    )
    assert len(sites.submitted) == 1


def test_a_site_that_does_not_answer_is_skipped_with_a_word(sites: Sites, route: Typed) -> None:
    with socket.socket() as silent:  # accepts, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        text = sites.file.read_text()
        sites.file.write_text(
            f'{text}[[site]]\nname = "silent"\nurl = "https://localhost:{silent.getsockname()[1]}"\n'
            f'token_file = "{sites.services["far"].folder}/token"\n'
            '[[site]]\nname = "closed"\nurl = "http://127.0.0.1:9"\n'
            f'token_file = "{sites.services["far"].folder}/token"\n'
        )
        status, out, _ = route("--json", "--set", "route.timeout=1.5", *JOB)
    document = json.loads(out)
    assert status == 0
    assert {each["site"] for each in document["ranking"]} == {"near", "far"}
    skipped = {each["site"]: each["why"] for each in document["skipped"]}
    assert "no answer in 1.5 s" in skipped["silent"]
    assert "Connection refused" in skipped["closed"]


def test_a_site_that_is_another_one_or_is_not_trusted_makes_no_offer(
    sites: Sites, route: Typed
) -> None:
    near, far = sites.services["near"], sites.services["far"]
    sites.file.write_text(
        f'[[site]]\nname = "near"\nurl = "https://localhost:{far.port}"\nca = "{far.certificate}"\n'
        f'token_file = "{far.folder}/token"\n'
        f'[[site]]\nname = "far"\nurl = "https://localhost:{far.port}"\nca = "{near.certificate}"\n'
        f'token_file = "{far.folder}/token"\n'
    )
    status, out, err = route("--json", *JOB)
    assert status == 1
    assert "no site accepts the job" in err
    skipped = {each["site"]: each["why"] for each in json.loads(out)["skipped"]}
    assert "answers for site 'far'" in skipped["near"]
    assert "certificate is not trusted" in skipped["far"]


def test_the_script_says_what_the_job_asks_for(sites: Sites, route: Typed, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --partition=short --time=2:00:00\nsleep 1\n")
    status, out, _ = route("--json", "--", "sbatch", str(script))
    assert status == 1  # the partition gives an hour
    assert "60 minutes at most" in out
    assert route("--json", "--", "sbatch", "--time=30", str(script))[0] == 0


def test_ended_jobs_are_taken_over_from_accounting(sites: Sites, route: Typed) -> None:
    assert route("--submit", *JOB)[0] == 0
    row = {"JobIDRaw": 77, "Submit": 1000, "Start": 1010, "End": 1030, "State": "COMPLETED"}
    sites.own.set(accounting=[row])
    file = sites.home / "slurm-rl" / "routed-jobs.json"
    waiting = file.read_text()
    assert route("--broker", "earliest", *JOB)[0] == 0  # learns nothing, so it asks no site
    assert file.read_text() == waiting
    assert route("--broker", "learning", *JOB)[0] == 0
    kept = json.loads(file.read_text())
    assert kept["on_their_way"] == []
    (ended, _) = sorted(kept["ended"], key=lambda job: -job["request"]["processors"])
    assert (ended["submitted"], ended["started"], ended["ended"]) == (1000, 1010, 1030)
    assert ended["request"]["processors"] == 2


def test_a_broker_that_learns_asks_no_site_and_learns_from_refusals(
    sites: Sites, route: Typed
) -> None:
    sites.file.write_text('[[site]]\nname = "near"\n[[site]]\nname = "far"\n')  # no service
    sites.own.set(refusals={"far": "Requested node configuration is not available"})
    words = ("--json", "--broker", "learning", "--submit", *JOB)
    for _ in range(20):  # until the drawn one refuses
        status, out, err = route(*words)
        assert status == 0
        assert json.loads(out)["submitted"]["site"] == "near"
        if "far did not accept the job" in err:
            break
    else:
        pytest.fail("never tried")
    status, out, err = route(*words)
    document = json.loads(out)
    assert err == ""
    assert [each["site"] for each in document["ranking"]] == ["near", "far"]
    assert document["ranking"][1]["reason"].startswith("Refused such a job of this user 0.0 h ago")
    assert document["skipped"] == []
    kept = json.loads((sites.home / "slurm-rl" / "routed-jobs.json").read_text())
    assert [each["outcome"] for each in kept["ended"]] == ["refused"]
    _, out, _ = route("--json", *JOB)
    assert {"no url" in each["why"] for each in json.loads(out)["skipped"]} == {True}


def test_users_of_a_login_node_share_what_they_met(
    sites: Sites, route: Typed, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    other = folder / f"{os.getuid() + 1}.json"
    heard = time.time()  # noqa: TID251 - as in the other user's own call
    other.write_text(f'{{"sites": {{"near": {{"mean_wait": 900, "heard": {heard}}}}}}}')
    if os.getuid() == 0:
        os.chown(other, os.getuid() + 1, -1)
    row = {"JobIDRaw": 77, "Submit": 1000, "Start": 1010, "End": 1030, "State": "COMPLETED"}
    sites.own.set(accounting=[row])
    words = ("--json", "--broker", "learning", "--set", f"route.shared_experience={folder}")
    _, out, err = route(*words, *JOB)
    merits = {each["site"]: each["merit"] for each in json.loads(out)["ranking"]}
    assert err == ""
    told = json.loads((folder / f"{os.getuid()}.json").read_text())["sites"]
    assert told == {site: {"mean_wait": 10.0, "heard": 1010.0} for site in ("near", "far")}
    assert merits["far"] == pytest.approx(0.0, abs=0.1)  # own experience of 1970
    if os.getuid() == 0:
        assert merits["near"] == pytest.approx(-900.0, abs=1.0)
    folder.chmod(0o777)
    assert "experience is not shared" in route(*words, *JOB)[2]


@rows_of("route")
def test_what_cannot_be_routed_is_said_in_one_sentence(
    sites: Sites, route: Typed, words: str, said: str
) -> None:
    assert said in route.refused(*words.split())


def test_every_fault_of_the_list_of_sites_is_told(sites: Sites, route: Typed) -> None:
    sites.file.write_text(
        '[[site]]\nname = "a"\nurl = "http://elsewhere:1"\ntoken_file = "t"\n'
        '[[site]]\nname = "b"\nurl = "https://x"\n'
        '[[site]]\nname = "c"\nurll = "https://x"\ntoken_file = "t"\n'
        "[other]\n"
    )
    status, _, err = route(*JOB)
    assert status == 2
    for fault in (
        ":1: [[site]] 1: url 'http://elsewhere:1' would show the token",
        ":5: [[site]] 2: url needs token_file",
        ":8: [[site]] 3: urll is unknown, did you mean url?",
        ":12: other is unknown: write [[site]].",
    ):
        assert fault in err, err
    sites.file.unlink()
    assert route("--set", "route.sites_file=", *JOB)[0] == 2
