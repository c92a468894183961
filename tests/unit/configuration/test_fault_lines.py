"""Every fault at once, each with its file, its line and its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.configuration.test_sources import faults_of, read, write


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# x\n[hook]\n\ncycle = 0", "4: [hook] cycle is 0, give at least 0.1."),
        ("hook.cycle = 0", "1: [hook] cycle is 0, give at least 0.1."),
        ("hook = { mode = 'x' }", "slurm-rl.toml: [hook] mode is 'x', give one of shadow, active."),
        ("[hook]\r\n\r\ncycle = 0\r\n", "3: [hook] cycle is 0, give at least 0.1."),
        ('[hook]\nmode = """\ncycl = 3\n"""\n', "2: [hook] mode is 'cycl = 3\\n', give one of"),
        ('[hook]\nstate_file = """\ncycle = 0 """\n\ncycle = 0', "5: [hook] cycle is 0, give at"),
        ("[hook]\nstate_file = '''\n[reward]\n'''\ncycle = 0", "5: [hook] cycle is 0, give at"),
        ("[hook]\n'cyc le' = 1", '2: [hook] "cyc le" is unknown, did you mean cycle?'),
        ('[hook]\n"a\\nb" = 1', '2: [hook] "a\\nb" is unknown, give one of mode'),
        ("[hook]\n[hook.mode]\nx = 1", "2: [hook] mode is {'x': 1}, give text."),
        ("\n[hok]\nx = 1", "2: section [hok] is unknown, did you mean hook?"),
        (
            "[guard_rails]\nexempt_qos = [\n 3,\n]\n",
            "2: [guard_rails] exempt_qos is [3], give a list of names.",
        ),
        ("\n[shares]\na = 0.5\nb = 2\n", "4: [shares] b is 2, give a number from 0 to 1."),
        (
            "\n[shares]\na = 0.5\nb = 0.75\n",
            "2: [shares] sum to 1.25 (a 0.5, b 0.75): make them sum to 1.",
        ),
        ("[shares]\n", "1: [shares] names no account: make them sum to 1."),
        (
            "[shares]\n\nfrom = 'lsf'",
            '3: [shares] from is \'lsf\': give either from = "slurm" (or "pbs") or one share',
        ),
        (
            "[[job_class]]\nclass = 'batch'\nqos = 'x'\n[[job_class]]\nclass = 'batch'\nqueue = 1",
            "6: [[job_class]] rule 2: queue is unknown",
        ),
        (
            "[[job_class]]\nclass = 'batch'\nqos = 'x'\n[[job_class]]\nclass = 'batch'\nqos = 1",
            "4: [[job_class]] rule 2: job-class pattern 1 is no regular expression",
        ),
        ("[reward]\ntail = 1\nfairness = 0.9", "3: [reward]: reward weights time_utility,"),
        ("[metrics]\ntls_key = 'x'", "2: [metrics] tls_key needs tls_certificate: give both"),
        ("[metrics]\ntls_certificate = 'x'", "2: [metrics] tls_certificate needs tls_key: give"),
        ("[hook]\nx = [1,\n", "is no TOML: Invalid value"),
        ("[hook]\ncycle == 1\n", "2: is no TOML: Invalid value, in column 8."),
        ("[hook]\ncycle = 1\ncycle = 2\n", "3: [hook] cycle is given twice, first in line 2."),
        (
            "[hook]\ncycle = 1\ncycle = [\n1,\n2]\nport = = 3",
            "3: [hook] cycle is given twice, first",
        ),
        ("[hook]\n[policy]\n[hook]\n", "3: hook is given twice, first in line 1."),
        ("hook = 3\n[hook]\n", "2: is no TOML: Cannot"),
        (f"[hook]\ncycle = {'9' * 400}", "2: [hook] cycle is out of all bounds, give a finite"),
        (f"[hook]\ncycle = {'9' * 5000}", "is no TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "is no TOML that can be read: it is nested too deeply."),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (found,) = faults_of(write(tmp_path, text))
    where = f"slurm-rl.toml:{fault}" if fault[0].isdigit() else fault
    assert "\n" not in found
    assert where in found


def test_client_authorities_need_a_certificate_of_ours(tmp_path: Path) -> None:
    text = "[metrics]\ntls_client_ca = 'ca.pem'\n"
    assert faults_of(write(tmp_path, text)) == [
        "slurm-rl.toml:2: [metrics] tls_client_ca needs tls_certificate: give both, or neither."
    ]
    whole = text + "tls_certificate = 'c.pem'\ntls_key = 'k.pem'\n"
    assert read(write(tmp_path, whole)).values["metrics"]["tls_key"] == "k.pem"


def test_a_pair_of_keys_may_come_from_two_sources(tmp_path: Path) -> None:
    path = write(tmp_path, "[metrics]\ntls_certificate = 'c.pem'\n")
    found = read(path, {"SLURM_RL_METRICS_TLS_KEY": "k.pem"})
    assert found.values["metrics"]["tls_key"] == "k.pem"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[hook]\ncycle = 0\n")
    (tmp_path / "conf.d" / "a.toml").write_bytes(b"# \xff\n")
    (tmp_path / "conf.d" / "b.toml").mkdir()
    (tmp_path / "conf.d" / "c.toml").symlink_to(tmp_path / "conf.d" / "c.toml")
    assert faults_of(path) == [
        "configuration conf.d/a.toml cannot be read: byte 2 is no UTF-8.",
        "configuration conf.d/b.toml cannot be read: Is a directory.",
        "configuration conf.d/c.toml cannot be read: Too many levels of symbolic links.",
        "slurm-rl.toml:2: [hook] cycle is 0, give at least 0.1.",
    ]


@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_a_conf_d_that_is_no_folder(tmp_path: Path, what: str) -> None:
    path = write(tmp_path, "")
    (tmp_path / "conf.d").rmdir()
    if what == "file":
        (tmp_path / "conf.d").write_text("[hook]\ncycle = 3\n")
    else:
        (tmp_path / "conf.d").symlink_to(tmp_path / "none")
    (fault,) = faults_of(path)
    assert fault.startswith("configuration conf.d cannot be read: No")


def test_no_key_is_missed_where_a_file_could_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[metrics]\ntls_key = 'k'\n", a="[metrics]\ntls_certificate = \n")
    assert faults_of(path) == ["conf.d/a.toml:2: is no TOML: Invalid value, in column 19."]


def test_thirty_faults_of_all_sources_are_thirty_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "[hook]\nmode = 'on'\ncycle = 0\nbusy_share = 2\nmax_writes = 'x'\nstate_file = ''\n"
        "colour = 1\n[extra]\n[policy]\nfallback = 'none'\nbreaker_failures = 0\n",
        a="[reward]\nfairness = -1\ntail = true\n[metrics]\nport = -1\ntls_key = 'k'\n"
        "address = 3\nmax_accounts = 0\n",
        b="[shares]\na = 2\nb = -1\nc = 'x'\n[[job_class]]\nclass = 'quick'\n[[job_class]]\n"
        "class = 'batch'\nqueue = 1\npartion = 'x'\n",
        c="guard_rails = 3\n",
    )
    environment = {
        "SLURM_RL_HOOK_MODE": "off",
        "SLURM_RL_HOOK_CYCEL": "1",
        "SLURM_RL_POLICY_BREAKER_REST": "1.5",
        "SLURM_RL_TRACES": "/traces",
        "SLURM_RL_SHARES": "x",
    }
    flags = ("hook.mode=x", "hook.x", "metrics.port=70000", "policy.modl=x")
    faults = faults_of(path, environment, flags)
    assert len(faults) == 30, "\n".join(faults)
    assert len(set(faults)) == 30
    assert all("\n" not in fault for fault in faults)
