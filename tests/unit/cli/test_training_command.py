"""The command in a manifest makes the same model: it names what shapes the jobs."""

import argparse
import shlex

from slurm_rl_plugin.cli.train import _command, add_arguments


def test_what_changes_the_jobs_is_named():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["site.swf", "-o", "m.onnx", "--partitions", "a=64,b=16", "--whole-nodes-of", "4"]
    options = parser.parse_args([*words, "--kill-at-limit"])
    again = parser.parse_args(shlex.split(_command(options, []))[2:])
    assert again.partitions == options.partitions == {"a": 64, "b": 16}
    assert (again.whole_nodes_of, again.kill_at_limit) == (4, True)
