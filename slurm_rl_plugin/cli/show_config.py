"""`slurm-rl show-config`: the configuration in force, and the source of each value."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import answer
from slurm_rl_plugin.configuration import Configuration, read_configuration
from slurm_rl_plugin.configuration.configuration import OF_GOALS
from slurm_rl_plugin.configuration.generated import (
    class_lines,
    example_text,
    follows,
    key_line,
    rule_lines,
    rule_table,
    shares_of,
)
from slurm_rl_plugin.configuration.key import DEFAULT
from slurm_rl_plugin.domain.utility_class import UtilityClass
from slurm_rl_plugin.readable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, or the defaults as an example file."""
    add_configuration_options(parser)
    parser.add_argument(
        "--defaults",
        action="store_true",
        help="print an example file: keys, defaults, meanings",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Print each key with its value and source, or the example file."""
    if options.defaults and not options.json:
        sys.stdout.write(example_text())
        return 0
    configuration = read_configuration(None) if options.defaults else configuration_of(options)
    return answer(
        options, _document(configuration), lambda: print(*_lines(configuration), sep="\n")
    )


def _document(configuration: Configuration) -> dict[str, Any]:
    utilities = {name: own.table for name, own in _own_classes(configuration).items()}
    return {
        **configuration.values,
        "shares": shares_of(configuration.shares, configuration.shares_source),
        "job_class": [rule_table(rule) for rule in configuration.classifier.rules],
        **({"utility": utilities} if utilities else {}),
        "origins": configuration.origins,
    }


def _own_classes(configuration: Configuration) -> dict[str, UtilityClass]:
    return {
        name: configuration.classifier.classes[name]
        for name in configuration.origins.get("utility", ())
    }


def _lines(configuration: Configuration) -> list[str]:
    origins, lines = configuration.origins, []
    for section, values in configuration.values.items():
        lines.append(f"[{section}]")
        for name, value in values.items():
            origin = origins[section][name]
            mark = "# " if follows(section, name) and origin in (DEFAULT, OF_GOALS) else ""
            lines.append(f"{mark}{key_line(name, value)}  # {printable(origin)}")
        lines.append("")
    lines.append("[shares]")
    for account, share in shares_of(configuration.shares, configuration.shares_source).items():
        lines.append(f"{key_line(account, share)}  # {printable(origins['shares'][account])}")
    for name, own in _own_classes(configuration).items():
        header, *keys = class_lines(name, own)
        lines += ["", f"{header}  # {printable(origins['utility'][name])}", *keys]
    for number, rule in enumerate(configuration.classifier.rules, start=1):
        origin = printable(origins["job_class"][str(number)])
        header, *keys = rule_lines(rule)
        mark = "" if configuration.has_class_rules else "# "  # the defaults apply anyway
        lines += ["", f"{mark}{header}  # {origin}", *(f"{mark}{line}" for line in keys)]
    return lines
