# SPDX-License-Identifier: Apache-2.0
"""Misspelt, older and contradicting options are named, with what to write instead."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.checks import findings, option_check
from fleet.checks.findings import Level

KNOWN = option_check.known()

FILES = [
    ("nothing wrong", "[DEFAULT]\nscheduler_max_attempts = 4\n", Level.OK, "all options are known and current", ""),
    ("of a library", "[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n", Level.OK, "all options are known", ""),
    ("with dashes", "[DEFAULT]\nreport-interval = 4\n", Level.OK, "all options are known and current", ""),
    (
        "misspelt",
        "[DEFAULT]\nmax_attempt = 4\n",
        Level.WARN,
        "there is no such option",
        "scheduler_max_attempts meant?",
    ),
    ("unlike any", "[DEFAULT]\nqqqq = 4\n", Level.WARN, "no such option", "unless a plugin of yours reads it"),
    ("an older name", "[DEFAULT]\npci_alias = {}\n", Level.WARN, "older", "[pci] alias"),
    ("nova's own name", "[scheduler]\nmax_attempts = 4\n", Level.OK, "all options are known and current", ""),
    ("nova's own name", "[filter_scheduler]\nenabled_filters = A\n", Level.OK, "all options are known", ""),
    ("not needed", "[filter_scheduler]\ntrack_instance_changes = false\n", Level.OK, "all options are known", ""),
    (
        "misspelt, in nova's section",
        "[filter_scheduler]\ntrack_instances = false\n",
        Level.WARN,
        "there is no such option",
        "track_instance_changes meant?",
    ),
    ("no such section", "[mine]\nname = 4\n", Level.WARN, "[mine] name: there is no such section", "a plugin of yours"),
    ("a storage backend", "[fast]\nvolume_driver = fake\nfake_thin = false\n", Level.OK, "all options are known", ""),
    (
        "a storage backend",
        "[fast]\nvolume_driver = fake\nfake_thick = 1\n",
        Level.WARN,
        "[fast] fake_thick",
        "is [fast] fake_thin meant?",
    ),
    (
        "a storage backend with the driver of the defaults",
        "[DEFAULT]\nenabled_backends = slow, fast\n[backend_defaults]\nvolume_driver = fake\n[fast]\nfake_thin = false\n",
        Level.OK,
        "all options are known",
        "",
    ),
    ("no configuration", "what is this\n", Level.FAIL, "fleet.conf", "Correct the file."),
]


@pytest.mark.parametrize(("what", "text", "level", "found", "fix"), FILES, ids=[case[0] for case in FILES])
def test_a_file(what: str, text: str, level: Level, found: str, fix: str, tmp_path: pathlib.Path) -> None:
    """One finding for what is wrong, one good one if nothing is."""
    file = tmp_path / "fleet.conf"
    file.write_text(text)
    (finding,) = option_check.check([str(file)], KNOWN)
    assert level == finding.level
    assert found in finding.found
    assert fix in finding.fix


CONTRADICTIONS = [
    ("good", "", "sqlite://", "fake://", []),
    ("no database", "", "", "fake://", ["connection is not set"]),
    ("a file behind a broker", "", "sqlite:////f", "rabbit://localhost/", ["SQLite file"]),
    ("no host named", "", "postgresql:///d", "rabbit:///", ["transport_url names no host"]),
    (
        "a broker elsewhere, in the clear",
        "",
        "sqlite://",
        "rabbit://127.0.0.1,b.example/",
        ["SQLite", "broker on b.example is"],
    ),
    ("with TLS", "[oslo_messaging_rabbit]\nssl = true\n", "postgresql:///d", "rabbit://b.example/", []),
    (
        "a database elsewhere",
        "",
        "postgresql://d.example/d",
        "fake://",
        ["on d.example is reached without TLS"],
    ),
    ("heartbeats too rare", "service_down_time = 5\n", "sqlite://", "fake://", ["25 s is used instead"]),
]


@pytest.mark.parametrize(
    ("what", "more", "database", "bus", "expected"), CONTRADICTIONS, ids=[case[0] for case in CONTRADICTIONS]
)
def test_contradictions(
    what: str, more: str, database: str, bus: str | None, expected: list[str], tmp_path: pathlib.Path
) -> None:
    """Options that do not fit together."""
    named = f"transport_url = {bus}\n" if bus else ""
    file = tmp_path / "fleet.conf"
    file.write_text(f"[DEFAULT]\n{named}{more}[database]\nconnection = {database}\n")
    conf = cfg.ConfigOpts()
    fleet_conf.load_config(["--config-file", str(file)], "fleet", conf=conf, setup_logging=False)
    found = option_check.contradictions(conf)
    assert len(expected) == len(found)
    assert all(part in finding.found for part, finding in zip(expected, found, strict=True))


def test_the_worst_counts() -> None:
    """Several findings are together what the worst of them is, and nothing is good."""
    good, doubtful, bad = findings.good("a", ""), findings.doubtful("b", ""), findings.bad("c", "")
    assert Level.FAIL == findings.worst([doubtful, bad, good])
    assert Level.WARN == findings.worst([good, doubtful])
    assert Level.OK == findings.worst([])


@pytest.mark.parametrize(
    ("line", "mode", "exposed"),
    [
        ("[DEFAULT]\ntransport_url = rabbit://fleet:pw@mq/", 0o644, "[DEFAULT] transport_url"),
        ("[database]\nconnection = postgresql://fleet:pw@db/fleet", 0o604, "[database] connection"),
        ("[keystone_authtoken]\npassword = pw", 0o644, "[keystone_authtoken] password"),
        ("[database]\nconnection = postgresql://fleet:pw@db/fleet", 0o640, ""),
        ("[database]\nconnection = sqlite:////var/lib/fleet/fleet.db", 0o644, ""),
        ("[DEFAULT]\ntransport_url = rabbit://mq/", 0o644, ""),
    ],
)
def test_a_file_with_secrets_that_everybody_can_read(
    tmp_path: pathlib.Path, line: str, mode: int, exposed: str
) -> None:
    """Its mode is remarked at the start of each daemon and by ``fleet doctor``; the value is not shown."""
    file = tmp_path / "fleet.conf"
    file.write_text(f"{line}\n")
    file.chmod(mode)
    found = [each for each in option_check.check([str(file)]) if "has mode" in each.found]
    assert bool(exposed) is bool(found)
    assert not exposed or f"has mode {mode:04o}, and everybody on this machine can read {exposed}" in found[0].found
    assert "pw" not in "".join(each.found + each.fix for each in found).replace("passwords", "").replace("password", "")


def test_the_options_of_all_services_take_little_memory() -> None:
    """Each daemon reads them at its start. An agent, of which there is one on each host, opens no database for that."""
    code = "import sys; from fleet.checks import option_check; option_check.known(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set() == {"numpy", "sqlalchemy"} & {*done.stdout.split()}
