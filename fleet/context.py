# SPDX-License-Identifier: Apache-2.0
"""The request context: user, project and request id, and the build that a log line belongs to.

Every remote call and every order carries one.
"""

from __future__ import annotations

from typing import Any, Self

from oslo_context import context as oslo_context

#: Arguments of a context with a key of the same name.
_ALIKE = [
    *("auth_token", "project_id", "is_admin", "read_only", "show_deleted", "request_id", "global_request_id"),
    *("resource_uuid", "roles", "user_name", "project_name", "domain_name", "user_domain_name", "project_domain_name"),
    *("is_admin_project", "system_scope", "instance_uuid", "attempt", "host", "migration", "volume"),
]
_OTHERS = {
    "user": "user_id",
    "domain": "domain_id",
    "user_domain": "user_domain_id",
    "project_domain": "project_domain_id",
}
#: Key of the dictionary → argument, as in oslo.context's ``from_dict``.
_ARGUMENTS = {name: name for name in _ALIKE} | _OTHERS


class RequestContext(oslo_context.RequestContext):
    """oslo.context's, with the instance uuid, the attempt and the host of a build for log lines.

    ``migration`` is a move's uuid, ``volume`` a volume's; ``attempt`` then counts the move's hosts, or the volume's pools.
    As in oslo.context (``overwrite=True``), creating a context makes it the thread's current one.
    """

    def __init__(
        self,
        *,
        instance_uuid: str | None = None,
        attempt: int | None = None,
        host: str | None = None,
        migration: str | None = None,
        volume: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.instance_uuid = instance_uuid
        self.attempt = attempt
        self.host = host
        self.migration = migration
        self.volume = volume
        super().__init__(**kwargs)

    @classmethod
    def from_dict(cls, values: dict[str, Any], **kwargs: Any) -> Self:
        """Return the context with these values. oslo.context's method takes longer: it looks up each possible argument."""
        given = {argument: values[key] for key in values if (argument := _ARGUMENTS.get(key)) is not None}
        return cls(**{**given, **kwargs})

    def to_dict(self) -> dict[str, object]:
        values = super().to_dict()
        values.update(instance_uuid=self.instance_uuid, attempt=self.attempt, host=self.host, migration=self.migration)
        # oslo.context leaves it out: the login of an operator, for administrative acts.
        values.update(volume=self.volume, user_name=self.user_name)
        return values

    def redacted_copy(self, **kwargs: Any) -> Self:
        """Return oslo.context's copy for notifications, without tokens. The thread's current context does not change."""
        current = oslo_context.get_current()
        copy = super().redacted_copy(**kwargs)
        copy.instance_uuid, copy.attempt, copy.host = self.instance_uuid, self.attempt, self.host
        copy.migration, copy.volume = self.migration, self.volume
        if current is not None:
            current.update_store()
        return copy

    def get_logging_values(self) -> dict[str, object]:
        values = super().get_logging_values()
        values.update(instance_uuid=self.instance_uuid, attempt=self.attempt, migration=self.migration)
        values.update(build_host=self.host, build=self._build())
        return values

    def _build(self) -> str:
        """Return the attempt, the host, and the move or volume for the prefix of a log line."""
        parts = []
        if self.attempt is not None:
            parts.append(f"attempt={self.attempt}")
        if self.host:
            parts.append(f"host={self.host}")
        if self.migration:
            parts.append(f"migration={self.migration}")
        if self.volume:
            parts.append(f"volume={self.volume}")
        return " ".join(parts) or "-"

    @property
    def scope(self) -> str | None:
        """The project whose objects the caller may see and change; None for the administrator: all."""
        return None if self.is_admin else self.project_id or ""

    def about(
        self,
        *,
        instance_uuid: str | None = None,
        attempt: int | None = None,
        host: str | None = None,
        migration: str | None = None,
        volume: str | None = None,
    ) -> Self:
        """Return the same request for one build, move or volume; it becomes the thread's current context."""
        values = self.to_dict()
        values.update(instance_uuid=instance_uuid, attempt=attempt, host=host, migration=migration, volume=volume)
        return type(self).from_dict(values)

    def on_behalf(self, request_id: str | None, project_id: str | None, user_id: str | None) -> Self:
        """Return the same build under the request and the user that asked for it; it becomes the thread's current
        context.
        """
        values = {**self.to_dict(), "request_id": request_id or self.request_id}
        values.update(project_id=project_id, user_id=user_id)
        return type(self).from_dict(values)

    def whose(self) -> dict[str, str | None]:
        """Return the arguments of :meth:`on_behalf`."""
        return {"request_id": self.request_id, "project_id": self.project_id, "user_id": self.user_id}

    def under(self, request_id: str | None) -> Self:
        """Return the context with the id of the original request, if it is known; it becomes the thread's current
        context.
        """
        return type(self).from_dict({**self.to_dict(), "request_id": request_id or self.request_id})


def new_context(project_id: str | None = None, user_id: str | None = None) -> RequestContext:
    """Return a context with a new request id, for an entry point (CLI command, periodic task)."""
    return RequestContext(project_id=project_id, user_id=user_id, is_admin=True)
