# SPDX-License-Identifier: Apache-2.0
"""Whole compute agents that call ledgers in memory over the brokerless transport, for tests of an agent's life."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg

from compute_agent import main
from compute_agent.agent import Agent
from fleet import states
from fleet.objects import FailedAttempt, Instance
from fleet.rpc import endpoint, server, versions
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients import ComputeAPI
from tests.unit.compute_agent import builders
from tests.worlds.agent_ledger import AgentLedger
from tests.worlds.move_ledger import MoveLedger

LIMIT_S = 10.0


class Endpoint:
    """Serves the methods of ``conductor`` over RPC, and notifies ``answered`` after each call."""

    def __init__(
        self, conductor: AgentLedger | MoveLedger, answered: threading.Condition, namespace: str | None
    ) -> None:
        self.target = oslo_messaging.Target(version=versions.CURRENT["conductor"], namespace=namespace)
        self._conductor = conductor
        self._answered = answered

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._conductor, name)

        @endpoint.expected_errors
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in ("reschedule", "abort_build"):
                parts = {each.name: kwargs.pop(each.name) for each in dataclasses.fields(FailedAttempt)}
                kwargs["failed"] = FailedAttempt(**parts)
            try:
                return method(*args, **kwargs)
            finally:
                with self._answered:
                    self._answered.notify_all()

        return call


class AgentsOverRpc:
    """A conductor in memory behind RPC, and agents started beside it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.options = conf
        self.transport = rpc_transport.get_transport(conf)
        self.conductor = AgentLedger()
        self._answered = threading.Condition()
        endpoints = [Endpoint(self.conductor, self._answered, namespace) for namespace in (None, "compute_task")]
        endpoints.append(Endpoint(MoveLedger(), self._answered, "migration"))
        self._server = server.get_server(self.transport, "conductor", "one", endpoints)
        self._server.start()
        self._agents: list[Agent] = []

    def start_agent(self, *hosts: str) -> Agent:
        agent = main.build_agents(self.options, self.transport, hosts)
        self._agents.append(agent)
        agent.start()
        assert agent.ready.wait(LIMIT_S)
        return agent

    def build(self, host: str, **values: Any) -> Instance:
        """A row that is being placed, and its order on the way to ``host``."""
        instance = self.conductor.place(builders.an_instance(**values))
        ComputeAPI(self.transport, self.options).build_and_run_instance(
            builders.a_context(),
            host,
            instance=instance.to_wire(),
            node=host,
            limits={},
            attempt=1,
            deadline=None,
            alternates=[],
            filter_properties={},
        )
        return instance

    def terminate(self, instance: Instance, host: str) -> None:
        self.conductor.put(self.conductor.rows[instance.uuid], task_state=states.DELETING)
        ComputeAPI(self.transport, self.options).terminate_instance(builders.a_context(), host, instance.uuid)

    def becomes(self, instance: Instance, vm_state: str) -> bool:
        with self._answered:
            return self._answered.wait_for(
                lambda: self.conductor.rows[instance.uuid].vm_state == vm_state, timeout=LIMIT_S
            )

    def close(self) -> None:
        for agent in self._agents:
            agent.stop()
            agent.wait()
        self._server.stop()
        self._server.wait()
        self.transport.cleanup()
