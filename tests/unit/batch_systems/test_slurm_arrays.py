"""Items become tasks of job arrays, and come back in order whatever happens to workers."""

import signal
import threading
import time
from dataclasses import replace

import pytest
from submitit.core.utils import DelayedSubmission

from slurm_rl_plugin.batch_systems.slurm.job_arrays import arrays as array_jobs
from slurm_rl_plugin.batch_systems.slurm.job_arrays import workplace as slurm_arrays
from slurm_rl_plugin.batch_systems.slurm.job_arrays.arrays import ArraySettings
from slurm_rl_plugin.batch_systems.slurm.job_arrays.worker import ArrayWorker, SharedWork
from slurm_rl_plugin.batch_systems.slurm.job_arrays.workplace import TRIES, SlurmArrays
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ConfigurationError
from tests.fakes.array_slurm import (
    ArraySlurm,
    broken,
    negative_product,
    no_learning,
    nothing,
    product,
    slow_product,
)
from tests.fakes.ctrl_c import ctrl_c_is_heard

ITEMS = list(range(7))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    fake = ArraySlurm(tmp_path / "slurm")
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_arrays, "LOOK_SECONDS", 0.05)
    yield fake
    deadline = time.monotonic() + 20
    while fake.running and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fake.running == []  # nothing of ours is left behind


@pytest.fixture
def settings(tmp_path):
    return ArraySettings(folder=tmp_path / "model.onnx.workers", workers=3)


def products(place, items=ITEMS, factor=6):
    return place.each(product, factor, items, warm_up=nothing)


def test_results_come_in_the_order_of_the_items(cluster, settings, capfd):
    seen = []
    with SlurmArrays(settings) as place:
        found = place.each(product, 6, ITEMS, warm_up=nothing, on_look=seen.append)
        assert (place.cost.workers, place.cost.rounds, place.cost.lost) == (3, 1, 0)
        assert place.cost.items == len(ITEMS)
        assert place.cost.overhead > 0  # no Python starts in no time
        place.forget()
    assert found == [6 * item for item in ITEMS]
    assert capfd.readouterr() == ("", "")  # submitit is kept quiet
    assert seen[-1] == found
    assert all(set(look) <= {None, *found} for look in seen)
    assert cluster.submitted == 1
    assert not settings.folder.exists()


def test_where_nothing_was_begun_no_folder_is_left(cluster, settings):
    with pytest.raises(ConfigurationError), SlurmArrays(settings):
        raise ConfigurationError("none.swf: there is no such file.")
    assert not settings.folder.exists()


def test_a_lost_worker_does_not_change_the_results(cluster, settings):
    cluster.lose(2)
    with SlurmArrays(settings) as place:
        assert products(place) == [6 * item for item in ITEMS]
        assert place.cost.lost == 2
    assert cluster.submitted in (2, 3)  # one array more for both, or each where not seen at once


def test_work_that_loses_every_worker_is_given_up(cluster, settings):
    cluster.lose(TRIES)
    with (
        pytest.raises(BatchSystemError, match=rf"{TRIES} workers .* FAILED .* --slurm-option"),
        SlurmArrays(replace(settings, workers=1)) as place,
    ):
        products(place)
    assert cluster.submitted == TRIES
    assert settings.folder.exists()  # the same command goes on from here


def test_wrong_input_is_said_as_it_is_without_workers(cluster, settings):
    with (
        pytest.raises(ConfigurationError, match=r"^item 3 cannot be learned from\.$"),
        SlurmArrays(settings) as place,
    ):
        place.each(no_learning, None, [3], warm_up=nothing)
    assert cluster.submitted == 1


def test_a_bug_in_a_worker_is_not_tried_again(cluster, settings):
    with (
        pytest.raises(BatchSystemError, match="ZeroDivisionError: item 3"),
        SlurmArrays(settings) as place,
    ):
        place.each(broken, None, [3], warm_up=nothing)
    assert cluster.submitted == 1


def test_short_items_share_a_worker_once_its_start_is_known(cluster, settings):
    with SlurmArrays(settings) as place:
        products(place)
        assert place.cost.workers == 3
        assert products(place, factor=7) == [7 * item for item in ITEMS]  # shipped anew
        assert place.cost.workers == 4  # a product takes less than a start: one has them all


def test_another_task_on_the_same_shared_data_is_shipped_too(cluster, settings):
    with SlurmArrays(settings) as place:
        products(place)
        found = place.each(negative_product, 6, ITEMS, warm_up=nothing)
    assert found == [-6 * item for item in ITEMS]


def test_no_items_need_no_worker(cluster, settings):
    with SlurmArrays(settings) as place:
        assert products(place, items=[]) == []
    assert cluster.submitted == 0


def test_an_interruption_ends_the_jobs(cluster, settings):
    begin = time.monotonic()
    threading.Timer(1.5, signal.raise_signal, [signal.SIGINT]).start()
    refusal = pytest.raises(KeyboardInterrupt)
    with ctrl_c_is_heard(), refusal, SlurmArrays(settings) as place:
        place.each(slow_product, 60.0, ITEMS, warm_up=nothing)
    assert time.monotonic() - begin < 30


def test_jobs_of_a_killed_run_are_ended_first(cluster, settings):
    first = SlurmArrays(settings)
    settings.folder.mkdir()
    shared = first._ship(SharedWork(slow_product, 60.0, nothing))
    first._jobs.submit(settings.folder, first._worker(), shared, [[1], [2]])
    assert len(cluster.running) == 2
    with SlurmArrays(settings) as place:
        assert cluster.running == []
        assert products(place) == [6 * item for item in ITEMS]


def test_two_trainings_do_not_share_a_folder(cluster, settings):
    with SlurmArrays(settings), pytest.raises(ConfigurationError, match="another command uses"):
        SlurmArrays(settings).__enter__()


def test_refused_options_are_a_fault_of_the_user(cluster, settings):
    cluster.switch("refuses", "sbatch: error: invalid partition specified: night")
    with (
        pytest.raises(ConfigurationError, match="invalid partition specified: night; mend"),
        SlurmArrays(settings) as place,
    ):
        products(place)


def test_a_slurm_that_cannot_be_reached_is_not(cluster, settings):
    cluster.switch("refuses", "sbatch: error: Unable to contact slurm controller")
    with (
        pytest.raises(BatchSystemUnavailable, match="scontrol ping"),
        SlurmArrays(settings) as place,
    ):
        products(place)


def test_an_sbatch_that_hangs_is_ended(cluster, settings, monkeypatch):
    monkeypatch.setattr(array_jobs, "TIMEOUT", 1.0)
    cluster.switch("hangs")
    begin = time.monotonic()
    with (
        pytest.raises(BatchSystemUnavailable, match="sbatch gave no answer within 1 s"),
        SlurmArrays(settings) as place,
    ):
        products(place)
    assert time.monotonic() - begin < 30


def test_without_accounting_a_lost_worker_would_go_unnoticed(cluster, settings):
    cluster.switch("no-accounting")
    with pytest.raises(ConfigurationError, match="accounting storage is disabled; leave --on out"):
        SlurmArrays(settings).__enter__()
    assert not settings.folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o707])
def test_a_folder_that_others_may_write_into_is_not_taken(cluster, settings, mode):
    settings.folder.mkdir()
    settings.folder.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"others may open .* give another one"):
        SlurmArrays(settings).__enter__()
    assert list(settings.folder.iterdir()) == []


def test_without_slurm_it_says_so(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"sbatch .* sacct cannot be found"):
        SlurmArrays(settings).__enter__()


def test_a_requeued_worker_begins_with_the_same_items(tmp_path):
    worker = ArrayWorker(2)
    shared = tmp_path / "shared"
    DelayedSubmission(product, 6, nothing).dump(shared)
    again = worker.checkpoint(shared, [1, 2, 3])
    assert again.result().results == [6, 12, 18]
