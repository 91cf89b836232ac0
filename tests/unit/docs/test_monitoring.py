# SPDX-License-Identifier: Apache-2.0
"""The alert rules and the dashboard use only metrics, labels and reason codes that the daemons have."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import prometheus_client
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from fleet.reasons import Reason
from fleet.telemetry import metrics

ROOT = pathlib.Path(__file__).parents[3]
RULES = ROOT / "etc/prometheus/fleet-alerts.yaml"
EXAMPLES = ROOT / "etc/prometheus/fleet-alerts-test.yaml"
DASHBOARD = ROOT / "etc/grafana/fleet.json"
#: Labels that Prometheus adds to each series, and that of a histogram's buckets.
ADDED = {"job", "instance", "le"}


def _samples() -> dict[str, set[str]]:
    """The name of each series that our daemons show, and its labels."""
    found = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric._type, [""])
            found.update({metric._name + ending: set(metric._labelnames) for ending in endings})
    return found


SAMPLES = _samples()
#: As a page names a metric: a histogram without the ending of its series.
NAMES = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SAMPLES}
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads(DASHBOARD.read_text())["panels"]
EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in ALERTS} | {
    f"{panel['title']}, {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_metrics_of_an_expression_exist(name: str) -> None:
    """Their names, and the labels by which they are selected and summed."""
    expression = EXPRESSIONS[name]
    used = set(re.findall(r"\bfleet_\w+", re.sub(r'"[^"]*"', "", expression)))
    assert set() == used - SAMPLES.keys()
    labels = set().union(*(SAMPLES[each] for each in used)) | ADDED
    matched = {
        label for selector in re.findall(r"{([^}]*)}", expression) for label in re.findall(r"(\w+)\s*[=!]", selector)
    }
    summed = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert set() == (matched | summed) - labels


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_the_reasons_of_an_alert_exist(rule: dict) -> None:
    """A code that is misspelt would never match."""
    named = [code for value in re.findall(r'reason!?=~?"([^"]*)"', rule["expr"]) for code in value.split("|") if code]
    assert [] == [code for code in named if code not in {each.value for each in Reason}]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_is_on_the_page(rule: dict) -> None:
    """Whoever is woken by it finds what to do."""
    assert f"| `{rule['alert']}` |" in (ROOT / "docs/monitoring.md").read_text()
    assert {"summary", "action"} == rule["annotations"].keys()
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_the_page_has_every_metric() -> None:
    """docs/health.md has the table of all of them, and of no other."""
    rows = [line for line in (ROOT / "docs/health.md").read_text().splitlines() if line.startswith("| `fleet_")]
    stated = {found[1]: set(found[2].replace(",", " ").split()) for found in map(_row, rows)}
    labels = {re.sub(r"_(bucket|sum|count)$", "", name): labels for name, labels in SAMPLES.items()}
    assert labels == stated


def _row(line: str) -> re.Match[str]:
    found = re.match(r"\| `(fleet_\w+)` \| ([\w, ]*) ?\|", line)
    assert found is not None, line
    return found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_the_metrics_of_a_page_exist(page: pathlib.Path) -> None:
    """A metric that has another name by now is found here."""
    named = set(
        re.findall(
            r"\b(fleet_(?:scheduler|conductor|compute|rpc|database|round_trip|ready)_?\w*_(?:total|seconds|entries))",
            page.read_text(),
        )
    )
    assert set() == named - NAMES


def test_a_panel_stands_by_itself() -> None:
    """No two panels have the same number or overlap, and each reads from the chosen data source."""
    assert len(PANELS) == len({panel["id"] for panel in PANELS})
    cells = [
        (x, y)
        for grid in (panel["gridPos"] for panel in PANELS)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {"${datasource}"} == {panel["datasource"]["uid"] for panel in PANELS}


def _run(cwd: pathlib.Path, *command: str) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_promtool_accepts_the_rules(promtool: str) -> None:
    """Prometheus would load them."""
    _run(ROOT, promtool, "check", "rules", str(RULES))


def test_promtool_plays_the_examples(promtool: str) -> None:
    """An alert fires when it should, with its text, and not before."""
    _run(EXAMPLES.parent, promtool, "test", "rules", EXAMPLES.name)


def test_promtool_accepts_the_dashboard(promtool: str, tmp_path: pathlib.Path) -> None:
    """Its expressions are PromQL, once Grafana has put its variables in."""
    expressions = [
        EXPRESSIONS[name].replace("$__rate_interval", "5m").replace("$instance", ".*") for name in EXPRESSIONS
    ]
    rules = [{"record": f"panel_{number}", "expr": each} for number, each in enumerate(expressions)]
    path = tmp_path / "dashboard.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    _run(tmp_path, promtool, "check", "rules", str(path))


def test_the_names_are_those_on_the_page_of_a_daemon() -> None:
    """What the test above takes for a name is what Prometheus reads."""
    shown = prometheus_client.generate_latest().decode()
    unlabelled = [name for name, labels in SAMPLES.items() if not labels]
    assert unlabelled
    assert [] == [name for name in unlabelled if f"\n{name}" not in shown and f"\n{name}{{" not in shown]
