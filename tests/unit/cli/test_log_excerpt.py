"""LOG@...: a part of a log, busier, or on another machine."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.cli.log_excerpt import LogExcerpt
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.simulator.workloads.generators import generated_log


def read(argument):
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    return read_named_logs([argument], LogOptions.of(parser.parse_args([])))[0]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "site@home=1.swf"  # an @ of the path itself is none of ours
    whole = generated_log("mmn:jobs=300,processors=10,load=.5,seed=2")
    write_swf(path, whole, comments=[])
    return str(path)


def test_an_argument_without_a_sign_is_the_log_itself():
    assert LogExcerpt.of("site.swf.gz") == LogExcerpt(log="site.swf.gz")
    assert LogExcerpt.of("me@home/site.swf") == LogExcerpt(log="me@home/site.swf")


def test_every_setting_is_read():
    assert LogExcerpt.of("a.swf@jobs=10:40,load=.7,processors=6") == LogExcerpt(
        log="a.swf", first=10, last=40, load=0.7, processors=6
    )


def test_the_jobs_are_taken_in_order_of_submission():
    whole, part = read("mmn:jobs=300,seed=2"), read("mmn:jobs=300,seed=2@jobs=50:120")
    np.testing.assert_array_equal(part.prepared.log.submit, whole.prepared.log.submit[50:120])
    assert part.name == "mmn:jobs=300,seed=2@jobs=50:120"


def test_the_load_becomes_the_one_asked_for_on_the_machine_asked_for():
    prepared = read("mmn:jobs=300,seed=2@load=.8,processors=20").prepared
    log = prepared.log
    assert prepared.capacity == 20
    asked = log.run_time.sum() / (20 * (log.submit[-1] - log.submit[0]))
    assert asked == pytest.approx(0.8)
    np.testing.assert_array_equal(log.run_time, read("mmn:jobs=300,seed=2").prepared.log.run_time)


def test_a_file_may_be_cut_too(log):
    assert len(read(log).prepared.log) == 300
    assert len(read(f"{log}@jobs=0:100").prepared.log) == 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("jobs=5:5", "jobs has '5', which is no number of at least 6"),
        ("jobs=5", "jobs has '', which is no number"),
        ("load=much", "load has 'much', which is no number"),
        ("load=inf", "load has 'inf', which is no number"),
        ("processors=99999999999999999999", "too large: give 2147483647 at most"),
        ("processors=0", "processors has '0', which is no number of at least 1"),
        ("cores=3", "unknown setting 'cores' behind the @; give jobs=FIRST:LAST, load, processors"),
        ("jobs=0:301", "holds 300 jobs that ran: jobs=0:301 goes beyond"),
    ],
)
def test_faults_are_told_in_one_sentence(words, message):
    with pytest.raises(ConfigurationError, match=message):
        read(f"mmn:jobs=300,seed=2@{words}")


def test_one_week_is_one_week():
    with pytest.raises(ConfigurationError, match=r"a.swf holds 1 whole week: weeks=2 are more"):
        LogExcerpt(log="a.swf", weeks=2).drawn_weeks(0.0, 8 * 86400.0)
