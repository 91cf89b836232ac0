# SPDX-License-Identifier: Apache-2.0
"""The request context: who asked, under which request id, and which build a log line is about."""

from __future__ import annotations

from typing import Any, Self

from oslo_context import context as oslo_context


class RequestContext(oslo_context.RequestContext):
    """oslo.context's, plus the build's place: the instance uuid, the attempt and the host of every log line.

    ``migration``: its uuid, where ``attempt`` counts a move's hosts and not a build's.

    Creating one makes it the thread's current context, as in oslo.context (``overwrite=True``).
    """

    FROM_DICT_EXTRA_KEYS = ["instance_uuid", "attempt", "host", "migration"]

    def __init__(
        self,
        *,
        instance_uuid: str | None = None,
        attempt: int | None = None,
        host: str | None = None,
        migration: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.instance_uuid = instance_uuid
        self.attempt = attempt
        self.host = host
        self.migration = migration
        super().__init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        values.update(instance_uuid=self.instance_uuid, attempt=self.attempt, host=self.host, migration=self.migration)
        return values

    def redacted_copy(self, **kwargs: Any) -> Self:
        """oslo.context's copy for notifications (no tokens), which must not become the thread's current context."""
        current = oslo_context.get_current()
        copy = super().redacted_copy(**kwargs)
        copy.instance_uuid, copy.attempt, copy.host = self.instance_uuid, self.attempt, self.host
        copy.migration = self.migration
        if current is not None:
            current.update_store()
        return copy

    def get_logging_values(self) -> dict[str, Any]:
        values = super().get_logging_values()
        values.update(instance_uuid=self.instance_uuid, attempt=self.attempt, migration=self.migration)
        values.update(build_host=self.host, build=self._build())
        return values

    def _build(self) -> str:
        """How the line prefix names the attempt, the host and the move."""
        parts = []
        if self.attempt is not None:
            parts.append(f"attempt={self.attempt}")
        if self.host:
            parts.append(f"host={self.host}")
        if self.migration:
            parts.append(f"migration={self.migration}")
        return " ".join(parts) or "-"

    def about(
        self,
        *,
        instance_uuid: str | None = None,
        attempt: int | None = None,
        host: str | None = None,
        migration: str | None = None,
    ) -> Self:
        """The same request, narrowed to one build or move; it becomes the thread's current context."""
        values = self.to_dict()
        values.update(instance_uuid=instance_uuid, attempt=attempt, host=host, migration=migration)
        return type(self).from_dict(values)

    def on_behalf(self, request_id: str | None, project_id: str | None, user_id: str | None) -> Self:
        """The same build under the request that asked for it, and who did; it becomes the thread's current context."""
        values = {**self.to_dict(), "request_id": request_id or self.request_id}
        values.update(project_id=project_id, user_id=user_id)
        return type(self).from_dict(values)

    def whose(self) -> dict[str, str | None]:
        """What :meth:`on_behalf` takes."""
        return {"request_id": self.request_id, "project_id": self.project_id, "user_id": self.user_id}

    def under(self, request_id: str | None) -> Self:
        """Gone on with under the id of the request that had asked for it, if that is known; current from now on."""
        return type(self).from_dict({**self.to_dict(), "request_id": request_id or self.request_id})


def new_context(project_id: str | None = None, user_id: str | None = None) -> RequestContext:
    """A context with a fresh request id, for an entry point (CLI command, periodic task)."""
    return RequestContext(project_id=project_id, user_id=user_id, is_admin=True)
