# SPDX-License-Identifier: Apache-2.0
"""Trust, attested by a real HTTPS service on loopback with a certificate made here."""

from __future__ import annotations

import datetime
import http.server
import json
import ssl
import threading

import pytest
import trustme

from fleet import errors
from scheduler.compute import filters
from scheduler.compute.domain import attestation
from scheduler.compute.drivers import loading
from tests import factories
from tests.clock import FakeClock
from tests.factories import node, request
from tests.unit.scheduler.judging import passed
from tests.unit.scheduler.plugins import configuration

TRUSTED = request({"extra_specs": {"trust:trusted_host": "trusted"}})
UNTRUSTED = request({"extra_specs": {"trust:trusted_host": "untrusted"}})
NAMES = ["good", "bad", "strange"]


class AttestationService:
    """Answers ``PollHosts`` with what a test has put into ``levels``, and remembers what it was asked."""

    def __init__(self, certificates: trustme.CA) -> None:
        self.clock = FakeClock()
        self.levels = {"good": "trusted", "bad": "untrusted"}
        self.times: dict[str, str] = {}
        self.answer: tuple[int, str] | None = None
        self.asked: list[list[str]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.issue_cert("127.0.0.1").configure_cert(context)
        self._httpd.socket = context.wrap_socket(self._httpd.socket, server_side=True)
        self._thread = threading.Thread(target=self._httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._httpd.server_address[1]

    def stop(self) -> None:
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    def respond(self, path: str, headers: dict[str, str], body: dict) -> tuple[int, str]:
        assert len(body["hosts"]) == body["count"]
        self.paths.append(path)
        self.headers.append(headers)
        self.asked.append(sorted(body["hosts"]))
        if self.answer:
            return self.answer
        now = self.clock().isoformat()
        known = [
            {"host_name": name, "trust_lvl": self.levels[name], "vtime": self.times.get(name, now)}
            for name in body["hosts"]
            if name in self.levels
        ]
        return 200, json.dumps({"hosts": known})

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, text = service.respond(self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("location", "https://elsewhere.invalid/")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: object) -> None:
                pass

        return Handler


@pytest.fixture(scope="module")
def certificates():
    return trustme.CA()


@pytest.fixture
def service(certificates):
    made = AttestationService(certificates)
    yield made
    made.stop()


@pytest.fixture
def ca_file(certificates, tmp_path):
    path = tmp_path / "ca.pem"
    certificates.cert_pem.write_to_path(path)
    return str(path)


def trusted_filter(service, ca_file, clock=None, **options):
    server = attestation.Server("127.0.0.1", str(service.port), ca_file=ca_file, timeout_s=5, **options)
    client = attestation.AttestationClient(server)
    return filters.TrustedFilter(attestation.TrustLevels(client, 60, clock or service.clock))


def let_through(each, asked=TRUSTED):
    each.prepare(asked, lambda: NAMES)
    there = passed(each, factories.candidates(*map(node, NAMES)), asked)
    return [name for name in NAMES if name in there]


def test_levels(service, ca_file):
    """Nodes pass that are attested exactly the level asked for; one that the service does not know is not trusted."""
    each = trusted_filter(service, ca_file)
    assert ["good"] == let_through(each)
    assert ["bad"] == let_through(each, UNTRUSTED)
    assert ["strange"] == let_through(each, request({"extra_specs": {"trust:trusted_host": "unknown"}}))


def test_no_trust_is_asked_for(service, ca_file):
    """Then everybody passes, and the service is left alone."""
    assert NAMES == let_through(trusted_filter(service, ca_file), request())
    assert [] == service.asked


def test_the_question(service, ca_file):
    """All nodes are asked for together, at the configured path, with the secret."""
    let_through(trusted_filter(service, ca_file, api_url="/api", auth_blob="secret"))
    assert [sorted(NAMES)] == service.asked
    assert ["/api/PollHosts"] == service.paths
    (headers,) = service.headers
    assert ("application/json", "application/json", "secret") == (
        headers["content-type"],
        headers["Accept"],
        headers["x-auth-blob"],
    )


def test_answers_are_kept_for_a_while(service, ca_file):
    """Within the time limit no question is asked; after it, all nodes are asked for again."""
    each = trusted_filter(service, ca_file)
    service.levels["strange"] = "untrusted"
    let_through(each)
    service.levels = {"good": "untrusted", "bad": "trusted", "strange": "trusted"}
    service.clock.advance(60)
    assert ["good"] == let_through(each)
    service.clock.advance(1)
    assert ["bad", "strange"] == let_through(each)
    assert [sorted(NAMES)] * 2 == service.asked


def test_an_unknown_node_is_asked_for_each_time(service, ca_file):
    """It may be known next time."""
    each = trusted_filter(service, ca_file)
    assert ["good"] == let_through(each)
    service.levels["strange"] = "trusted"
    assert ["good", "strange"] == let_through(each)


@pytest.mark.parametrize(
    ("name", "vtime", "expected"),
    [
        ("ISO 8601 with a zone", "2026-01-01T14:00:00+02:00", ["good"]),
        ("the locale's own form", "Thu Jan  1 12:00:00 2026", ["good"]),
        ("neither", "at noon", []),
        ("a year that UTC does not have", "0001-01-01T00:00:00+14:00", []),
    ],
)
def test_times(service, ca_file, name, vtime, expected):
    """The time of an answer is read in two forms; an answer of an unreadable time is not believed."""
    service.times["good"] = vtime
    service.levels.update(bad="untrusted", strange="untrusted")
    clock = FakeClock(datetime.datetime(2026, 1, 1, 12, 0, 30))
    service.clock = clock
    each = trusted_filter(service, ca_file)
    assert expected == let_through(each), name
    let_through(each)
    assert 1 == len(service.asked), "the answer counts from its own time"


def test_an_answer_from_the_future(service, ca_file):
    """It is kept no longer than one that was made now: the clock of the service may be wrong."""
    service.levels.update(bad="untrusted", strange="untrusted")
    service.times = dict.fromkeys(NAMES, "2126-01-01T00:00:00")
    each = trusted_filter(service, ca_file)
    assert ["good"] == let_through(each)
    service.levels["good"] = "untrusted"
    service.clock.advance(61)
    assert [] == let_through(each)


def test_a_name_that_is_none(service, ca_file):
    """The filter skips an answer whose host name is no text, and reads the others."""
    known = {"host_name": "bad", "trust_lvl": "trusted", "vtime": service.clock().isoformat()}
    found = [{"host_name": ["good"]}, known]
    service.answer = (200, json.dumps({"hosts": found}))
    assert ["bad"] == let_through(trusted_filter(service, ca_file))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("an error", (500, "{}")),
        ("a redirection is not followed", (302, "{}")),
        ("no JSON", (200, "trusted, all of them")),
        ("nothing", (204, "")),
        ("JSON of another form", (200, "[]")),
        ("hosts of another form", (200, '{"hosts": ["good"]}')),
    ],
)
def test_no_answer(service, ca_file, caplog, name, answer):
    """Nobody is trusted, and the log says why, once a request."""
    service.answer = answer
    assert [] == let_through(trusted_filter(service, ca_file)), name
    (warning,) = [record.message for record in caplog.records if record.name == "scheduler.compute.domain.attestation"]
    assert warning.startswith(f"No answer from the attestation service at https://127.0.0.1:{service.port}/")


def test_a_forgotten_answer(service, ca_file):
    """What was attested is not believed for longer because the service is gone."""
    each = trusted_filter(service, ca_file)
    assert ["good"] == let_through(each)
    service.clock.advance(61)
    service.answer = (503, "")
    assert [] == let_through(each)


def test_a_certificate_of_somebody_else(service, tmp_path, caplog):
    """It is no answer, unless certificates are not to be verified."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    assert [] == let_through(trusted_filter(service, str(other)))
    assert "certificate verify failed" in caplog.text.lower()
    assert [] == service.asked
    assert ["good"] == let_through(trusted_filter(service, str(other), insecure_ssl=True))


def test_options(service, ca_file, caplog):
    """The configured filter asks the configured service."""
    conf = configuration(scheduler_default_filters=["TrustedFilter"])
    options = {
        "attestation_server": "127.0.0.1",
        "attestation_port": str(service.port),
        "attestation_server_ca_file": ca_file,
        "attestation_api_url": "/other",
        "attestation_auth_blob": "blob",
    }
    for name, value in options.items():
        conf.set_override(name, value, "trusted_computing")
    (each,) = loading.load_filters(conf)
    assert "TrustedFilter is experimental; nova has dropped it" in caplog.messages
    each.prepare(TRUSTED, lambda: NAMES)
    assert (["/other/PollHosts"], "blob") == (service.paths, service.headers[0]["x-auth-blob"])


def test_no_service_configured():
    """The scheduler does not start with a filter that could never let a host through."""
    with pytest.raises(errors.ConfigError) as refused:
        loading.load_filters(configuration(scheduler_default_filters=["TrustedFilter"]))
    assert "[trusted_computing] attestation_server" == refused.value.option


def test_one_host_at_a_time(service, ca_file):
    """nova's form asks the service by itself."""
    each = trusted_filter(service, ca_file)
    hosts = factories.candidates(*map(node, NAMES))
    states = [hosts.state(row) for row in range(len(NAMES))]
    assert {"good"} == {state.host for state in states if each.host_passes(state, TRUSTED)}
