"""What the documents say is what the code does."""

from __future__ import annotations

import re
import runpy
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from slurm_rl_plugin import RELEASE
from slurm_rl_plugin.brokers.live.job_document import FIELDS
from slurm_rl_plugin.cli.entry import VERBS, verb_parser
from slurm_rl_plugin.configuration import KEYS
from slurm_rl_plugin.domain import jobs
from slurm_rl_plugin.domain.job_class import JobClassRule
from slurm_rl_plugin.domain.resources import CPUS, GPUS, ResourcesNow
from slurm_rl_plugin.domain.site import NEEDS
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.hook import cycle_report
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.experiment.turns import (
    EXPERIMENT_PHASES,
    EXPERIMENT_WORDS,
    ExperimentReport,
    GoalSeen,
)
from slurm_rl_plugin.hook.memory import carried_factors
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails import reserve
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, NATIVE
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.simulator.workloads.generators import _GENERATORS, _RANGES
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise
from tests.architecture.markdown_documents import (
    DOCUMENTS,
    TOP,
    Command,
    all_commands,
    anchor,
    code_blocks,
    code_spans,
    commands_in,
    headings,
    links,
    prose,
    rollback_line,
    section,
    shell_lines,
    table_rows,
)
from tests.unit.hook.queues import pending_jobs, snapshot_of

DOCS = TOP / "docs"
COMMANDS = all_commands()
#: What simulates, of the verbs that run on a head node, and the program that has the simulator.
SIMULATES = (("forecast",), ("experiment", "start"), ("experiment", "report"))
SIMULATOR = "/opt/slurm-rl-forecast/bin/slurm-rl"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(TOP).as_posix())
def test_internal_links_and_anchors_exist(document: Path) -> None:
    for link in links(document):
        if link.startswith("http"):
            continue
        name, _, mark = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{document.name} links to {link}"
        if mark:
            assert mark in map(anchor, headings(target)), f"{document.name} links to {link}"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [TOP / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        names = [link.partition("#")[0] for link in links(document) if not link.startswith("http")]
        waiting += [(document.parent / name).resolve() for name in names if name]
    assert set(DOCUMENTS) <= reached


def test_paths_of_modules_and_tests_exist() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:\w+/)+\w+\.(?:py|sh|onnx|yml))`", prose(document)):
            assert (TOP / path).exists() or (TOP / "slurm_rl_plugin" / path).exists(), (
                f"{document.name} names {path}"
            )


def test_on_a_head_node_what_simulates_is_run_where_the_simulator_is() -> None:
    """The package has none: `slurm-rl` in the PATH would only say that numba is missing."""
    seen = set()
    for document in DOCUMENTS:
        for line in shell_lines(document):
            for command in commands_in(line, document.name):
                for verb in SIMULATES:
                    if command.words[: len(verb)] == verb:
                        seen.add(verb)
                        assert SIMULATOR in line, f"{document.name}: {line}"
    assert seen == set(SIMULATES)


def test_the_drawing_of_layers_is_what_import_linter_checks() -> None:
    (drawing,) = [
        block for block in code_blocks(DOCS / "architecture.md") if block.kind == "text layers"
    ]
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    (layers,) = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == ["slurm_rl_plugin"]
    ]
    assert [re.split(r"\s{2,}", line)[0] for line in drawing.text.splitlines()] == layers


def test_every_field_of_a_request_to_a_site_is_documented() -> None:
    told = code_spans(section(DOCS / "research" / "brokers.md", "The offer service"))
    assert {*FIELDS, *NEEDS} <= set(told)


def families() -> list[Metric]:
    """Everything that the daemon serves after a cycle with one of Slurm's commands."""
    registry = CollectorRegistry()
    limit = reserve.LimitReport(amounts={CPUS: 5, GPUS: 2})
    labels = load_policy(str(TOP / "policy_models" / "default.onnx")).labels
    metrics = CycleMetrics(registry, labels)
    machine = ResourcesNow(names=(CPUS,), capacity=np.ones(1), free=np.ones(1))
    snapshot = replace(snapshot_of(pending_jobs([1, 1])), resources=machine)
    calls = (("squeue", 0.1),)
    goal = GoalSeen(goal="wait", ratio=0.9, low=0.5, high=1.2, word="inconclusive")
    metrics.publish(
        CycleReport(
            time=1.0,
            mode="shadow",
            policy="fifo",
            snapshot=snapshot,
            calls=calls,
            limit=limit,
            service=ServiceSeen(delivered=np.ones(1), entitled=np.ones(1)),
            lifts=Lifts(groups={"half or more": 1.0}, group_waits={"half or more": 60.0}),
            experiment=ExperimentReport(phase="site", state="running", goals=(goal,), pairs=1),
        )
    )
    return list(registry.collect())


def served_name(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def test_metrics_are_documented_with_type_and_labels() -> None:
    table = section(DOCS / "metrics.md", "Every metric")
    documented = {
        code_spans(cells[0])[0]: (cells[1], set(code_spans(cells[2])))
        for cells in table_rows(table)
    }
    served = {}
    for family in families():
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        served[served_name(family)] = (family.type, labels)
    assert documented == served


def test_closed_sets_of_label_values_are_documented() -> None:
    rows = table_rows(section(DOCS / "metrics.md", "Label values"))
    assert {code_spans(name)[0]: tuple(code_spans(values)) for name, values in rows} == {
        "slurm_rl_mode": cycle_report.MODES,
        "slurm_rl_configured_mode": cycle_report.CONFIGURED_MODES,
        "slurm_rl_experiment": EXPERIMENT_PHASES,
        "slurm_rl_experiment_finding": EXPERIMENT_WORDS,
        "slurm_rl_cycle_failures_total": cycle_report.FAILURES,
        "slurm_rl_cycle_duration_seconds": cycle_report.PHASES,
        "slurm_rl_adjustments_total": cycle_report.DIRECTIONS,
        "slurm_rl_adjustments_suppressed_total": cycle_report.SUPPRESSIONS,
        "slurm_rl_disturbances_total": carried_factors.DISTURBANCES,
        "slurm_rl_requests_changed_total": jobs.REQUEST_PARTS,
        "slurm_rl_batch_limit_reason": reserve.LIMIT_REASONS,
        "slurm_rl_batch_limit_changes_total": reserve.LIMIT_CHANGES,
        "slurm_rl_batch_limit_failures_total": reserve.LIMIT_FAILURES,
    }


def test_no_section_of_the_configuration_is_missing_or_invented() -> None:
    named = [each for each in headings(DOCS / "configuration.md") if each.startswith("[")]
    assert named == [*(f"[{name}]" for name in KEYS), "[shares]", "[utility.NAME]", "[[job_class]]"]


def test_keys_of_job_class_rules() -> None:
    rows = table_rows(section(DOCS / "configuration.md", "[[job_class]]"))
    documented = {key for row in rows for key in code_spans(row[0])}
    fields = set(JobClassRule.__dataclass_fields__) - {"job_class"}
    assert documented == fields | {"class"}


def test_every_reported_number_is_defined() -> None:
    text = (DOCS / "research" / "definitions.md").read_text()
    defined = {span for row in table_rows(text) for cell in row for span in code_spans(cell)}
    entry = summarise(one_job(), accounts=("physics",))
    reported = {*entry, *entry["classes"], *entry["classes"]["batch"]}
    reported |= set(entry["accounts"]["physics"])
    assert reported - defined == set()


def one_job() -> ScheduledJobs:
    from numpy import array, ones  # noqa: PLC0415 - only here

    return ScheduledJobs(
        submit=array([0.0]),
        start=array([10.0]),
        run_time=array([60.0]),
        processors=array([1]),
        account=array([0]),
        interactive=array([True]),
        shares=ones(1),
        capacity=1,
    )


def test_the_feature_schema_is_documented() -> None:
    text = section(DOCS / "research" / "features.md", "Feature schema")
    rows = [(code_spans(name)[0], kind) for name, kind, _ in table_rows(text)]
    wanted = [*((each, "queue") for each in SITE.queue), *((each, "job") for each in SITE.jobs)]
    assert rows == wanted
    assert f"version {SITE.version}, digest `{SITE.digest[:16]}`" in text
    assert f"float32[{len(SITE.queue)}]" in text
    assert f"float32[n, {len(SITE.jobs)}]" in text


def test_ordering_rules_are_defined() -> None:
    rows = table_rows(section(DOCS / "research" / "definitions.md", "Ordering rules"))
    known = {each.name for each in NAMED_POLICIES.values() if each.is_rule}
    assert {code_spans(row[0])[0] for row in rows} == known - {NATIVE}


def test_rules_of_the_daemon_are_named_in_the_configuration() -> None:
    live = {each.name for each in NAMED_POLICIES.values() if not each.needs_log}
    assert live <= set(code_spans(section(DOCS / "configuration.md", "[policy]")))


def test_generators_are_documented_with_their_defaults() -> None:
    rows = table_rows(section(DOCS / "research" / "researchers.md", "Logs"))
    documented = {
        code_spans(name)[0].rstrip(":"): dict(re.findall(r"`(\w+)` \(([\d.]+)\)", settings))
        for name, _, settings in rows
    }
    assert documented.keys() == _GENERATORS.keys()
    for name, settings in documented.items():
        defaults = {**(_GENERATORS[name].__kwdefaults__ or {}), "seed": 1}
        known = [key for key in _RANGES if key != "burst" or name == "egee"]
        assert {key: float(value) for key, value in settings.items()} == {
            key: float(defaults[key]) for key in known
        }


def test_documents_have_commands_of_every_verb() -> None:
    verbs = {each.words[0] for each in COMMANDS if each.program == "slurm-rl"}
    assert verbs | {"demo"} == set(VERBS)  # the demo is run by make


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_commands_are_understood(command: Command) -> None:
    if command.program == "make":
        targets = re.findall(r"^([\w-]+):", (TOP / "Makefile").read_text(), re.MULTILINE)
        assert set(command.words) <= set(targets)
        return
    verb, *rest = command.words
    verb_parser(verb).parse_args(rest)  # ends the test where a word is not understood


def programs_in(document: Path) -> list[tuple[str, list[str]]]:
    """Modules of this checkout that a document runs, in a code block or in prose, their options."""
    found = re.findall(
        r"python -m ((?:tests|slurm_rl_plugin)[.\w]*)([^`|\n]*)", document.read_text()
    )
    return [(module, re.findall(r"--[a-z-]+", rest)) for module, rest in found]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(TOP).as_posix())
def test_programs_beside_the_verbs_exist_with_their_options(document: Path) -> None:
    for module, options in programs_in(document):
        path = TOP / module.replace(".", "/")
        source = next(
            (each for each in (path.with_suffix(".py"), path / "__main__.py") if each.exists()),
            None,
        )
        assert source is not None, f"{document.name} runs {module}"
        known = set(re.findall(r'"(--[a-z-]+)"', source.read_text()))
        assert set(options) <= known, f"{document.name} runs {module} with {options}"


def test_verbs_named_in_prose_exist() -> None:
    for document in DOCUMENTS:
        named = re.findall(r"`(?:[\w/]*bin/)?slurm-rl ([a-z-]+)", prose(document))
        assert set(named) <= set(VERBS), document.name


def test_readme_and_operators_give_the_same_rollback() -> None:
    assert rollback_line(TOP / "README.md") == rollback_line(DOCS / "operators.md")


def test_readers_are_told_of_every_release_that_is_tested() -> None:
    recorded = {path.name for path in (TOP / "tests" / "assets" / "slurm").iterdir()}
    told = re.search(r"\| Slurm \|[^|]*\|([^|]*)\|", (DOCS / "install.md").read_text())
    assert told
    assert set(re.findall(r"(\d+\.\d+)\.\d", told[1])) == recorded


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    versions = re.findall(r"^## \[(\d[^\]]*)\]", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == RELEASE


def test_the_site_has_a_place_for_each_page_of_the_manual() -> None:
    """`make site` ends where one has none, or a link leads nowhere."""
    settings = runpy.run_path(str(TOP / "deploy" / "site" / "conf.py"))
    listed = {page for pages in settings["CONTENTS"].values() for page in pages.split()}
    assert {path.stem for path in DOCS.glob("*.md")} == {name for name in listed if "*" not in name}
