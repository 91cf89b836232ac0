# SPDX-License-Identifier: Apache-2.0
"""Damaged requests over HTTP by a member of one project, while a member of another works."""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import random
import socket
import statistics
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any

from tests.amqp.daemons import eventually
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld
from tests.hostile import people
from tests.hostile.fuzz import Fuzz, Sent
from tests.hostile.people import MEMBER, OWNER, Person

REQUESTS, CLIENTS = 50_000, 8
#: No answer may come later.
SLOWEST_S = 10.0
#: Documented: nova has it and a fleet has not; the conductor does not answer in time.
_DOCUMENTED = frozenset({501, 503})
_PAUSE_S = 0.25
_LISTS = {"/v2.1/servers": "servers", "/v2.1/os-server-groups": "server_groups", "/v3/volumes": "volumes"}


class Client:
    """One connection of one person."""

    def __init__(self, port: int, person: Person) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3 * SLOWEST_S)
        self._person = person

    def send(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, float]:
        """Return status, answer and seconds. A connection that the server has closed is opened again, once."""
        for last in (False, True):
            began = time.monotonic()
            try:
                self._connection.request(method, target, body, {**self._person.headers, **headers})
                answer = self._connection.getresponse()
                if answer.headers.get_content_type() == "text/event-stream":
                    # It would go on for ever.
                    self._connection.close()
                    return answer.status, b"", time.monotonic() - began
                return answer.status, answer.read(), time.monotonic() - began
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                if last:
                    raise
        raise AssertionError("one of both has returned")

    def json(self, method: str, target: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        status, answer, _seconds = self.send(method, target, sent, **{"Content-Type": "application/json"})
        assert status < 300, f"{method} {target} is answered with {status}: {answer[:200]!r}"
        return json.loads(answer) if answer else None

    def close(self) -> None:
        self._connection.close()


class Neighbour(threading.Thread):
    """Lists its servers four times a second, and keeps how long that takes."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ended = threading.Event()
        self.seconds: list[float] = []
        self.codes: collections.Counter[int] = collections.Counter()

    def run(self) -> None:
        with contextlib.closing(Client(self._port, OWNER)) as client:
            while not self._ended.wait(_PAUSE_S):
                status, _answer, seconds = client.send("GET", "/v2.1/servers")
                self.codes[status] += 1
                self.seconds.append(seconds)

    @contextlib.contextmanager
    def working(self) -> Iterator[Neighbour]:
        self.start()
        try:
            yield self
        finally:
            self._ended.set()
            self.join()

    def __str__(self) -> str:
        middle = statistics.median(self.seconds)
        return f"{len(self.seconds)} lists, the median {middle * 1000:.0f} ms, the slowest {max(self.seconds):.2f} s"


@contextlib.contextmanager
def _served(world: ChaosWorld) -> Iterator[int]:
    """``fleet-api`` with users; yields its port."""
    passwords, projects = people.write_users(world.directory)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = world.directory / "http-fuzz.conf"
    path.write_text(
        f"[api]\nport = {port}\nbind_host = 127.0.0.1\nauth_strategy = http_basic\n"
        f"basic_auth_file = {passwords}\nprojects_file = {projects}\n"
    )
    path.chmod(0o600)
    world.trio.start("http-fuzz", "fleet-api", "--config-file", str(path))
    try:
        with contextlib.closing(Client(port, MEMBER)) as client:
            eventually(lambda: client.send("GET", "/v2.1/servers")[0] == 200, retry_on=OSError)
        yield port
    finally:
        world.trio.stop("http-fuzz")
        world.trio.forget("http-fuzz")


def _objects(client: Client) -> Mapping[str, str]:
    """What the sender has, by kind; the rest are uuids that nothing has."""
    group = {"server_group": {"name": "mine", "policies": ["affinity"]}}
    made = client.json("POST", "/v2.1/os-server-groups", group)["server_group"]["id"]
    volume = client.json("POST", "/v3/volumes", {"volume": {"size": 1, "name": "mine"}})["volume"]["id"]
    known = {"group": made, "volume": volume, "host": "a1", "token": "Lumen", "project": people.THEIRS}
    return collections.defaultdict(lambda: str(uuid.UUID(int=7)), known)


def _play(port: int, requests: Iterable[Sent]) -> tuple[collections.Counter[int], list[str]]:
    codes: collections.Counter[int] = collections.Counter()
    wrong = []
    with contextlib.closing(Client(port, MEMBER)) as client:
        for each in requests:
            try:
                status, answer, seconds = client.send(each.method, each.target, each.body, **each.headers)
            except OSError as failure:
                wrong.append(f"{each} has no answer: {failure!r}")
                continue
            codes[status] += 1
            if status >= 500 and status not in _DOCUMENTED:
                wrong.append(f"{each} is answered with {status}: {answer[:200]!r}")
            if seconds > SLOWEST_S:
                wrong.append(f"{each} is answered after {seconds:.1f} s")
    return codes, wrong


def _requests(fuzz: Fuzz, seed: int) -> Iterator[Sent]:
    for number in range(REQUESTS // CLIENTS):
        yield fuzz.request(random.Random(f"{seed}/{number}"))


def http_fuzz(world: ChaosWorld, chance: random.Random) -> None:
    """Fifty thousand damaged requests over HTTP by a member of one project, while another one lists its servers."""
    with _served(world) as port:
        with contextlib.closing(Client(port, MEMBER)) as client:
            fuzz = Fuzz(client.json("GET", "/fleet/v1/openapi.json"), _objects(client))
        with Neighbour(port).working() as before:
            time.sleep(5)
        began = time.monotonic()
        seeds = [chance.randrange(2**31) for _client in range(CLIENTS)]
        with Neighbour(port).working() as meanwhile, futures.ThreadPoolExecutor(CLIENTS) as clients:
            made = [_requests(fuzz, seed) for seed in seeds]
            played = list(clients.map(lambda sent: _play(port, sent), made))
        codes = sum((codes for codes, _wrong in played), collections.Counter())
        took_s = time.monotonic() - began
        print(f"    {codes.total()} requests in {took_s:.0f} s: {dict(sorted(codes.items()))}", flush=True)
        print(f"    a neighbour before: {before}; meanwhile: {meanwhile}, {dict(meanwhile.codes)}", flush=True)
        _clear(port)
    wrong = [each for _codes, found in played for each in found]
    assert not wrong, f"{len(wrong)} requests such as {wrong[0]}"
    assert {200} == meanwhile.codes.keys(), meanwhile.codes
    assert max(meanwhile.seconds) < SLOWEST_S, str(meanwhile)


def _clear(port: int) -> None:
    """Delete what both have made."""
    for person in (MEMBER, OWNER):
        with contextlib.closing(Client(port, person)) as client:
            for path, key in _LISTS.items():
                for each in client.json("GET", path)[key]:
                    client.send("DELETE", f"{path}/{each['id']}")


SCENARIOS = [Scenario("messages:http-fuzz", http_fuzz)]
