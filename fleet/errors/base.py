# SPDX-License-Identifier: Apache-2.0
"""The base of all expected errors, and the errors of any request.

All other modules of this package inherit from it.
"""

from collections.abc import Mapping
from typing import ClassVar, Self

from fleet import control_characters
from fleet.reasons import Reason

#: Of each fact of a mistake.
_MOST_CHARACTERS = 900


class FleetError(Exception):
    """Base of all expected errors.

    Show ``message``: ``str()`` of a remote copy also has text of the transport. ``reason_code`` is the reason in one word,
    for faults and logs.
    """

    __module__ = "fleet.errors"
    code = 500
    reason_code = Reason.INTERNAL
    #: True if every host would fail in the same way: the build ends, and no other host is tried.
    final = False
    template = "An unknown error occurred."
    #: What a project reads in place of facts about hosts and pools, which only administrators see.
    hidden: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls) -> None:
        """Name the class on the wire by the package: clients of other releases know no other module."""
        super().__init_subclass__()
        if cls.__module__.startswith("fleet.errors."):
            cls.__module__ = "fleet.errors"

    def __init__(self, **kwargs: object) -> None:
        super().__init__()
        self.kwargs = kwargs
        self.__dict__.update(kwargs)
        self._hidden: Mapping[str, object] = self.hidden

    def hiding(self, **facts: object) -> Self:
        """Return this error, which will have these facts in place of its own for a project."""
        self._hidden = {**self._hidden, **facts}
        return self

    def for_projects(self) -> Self:
        """Return the error without facts about hosts and pools."""
        return type(self)(**{**self.kwargs, **self._hidden}) if self._hidden else self

    @property
    def message(self) -> str:
        return self.template.format(**self.kwargs)

    def __str__(self) -> str:
        return self.message


class InvalidInput(FleetError):
    """A request is malformed. ``field`` is the path of the wrong value. Correct it and send the request again."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "{field} {reason}"
    #: The field, if the answer is larger than a message may be. The caller may ask for parts.
    ANSWER: ClassVar[str] = "answer"
    field: str
    reason: str

    def __init__(self, **kwargs: object) -> None:
        """Both may quote what was sent, which may be long or forge a line of a log."""
        shown = {name: control_characters.one_line(str(value)[:_MOST_CHARACTERS]) for name, value in kwargs.items()}
        super().__init__(**shown)


class NotFound(FleetError):
    """The named object does not exist, or was deleted."""

    code = 404
    reason_code = Reason.MISCONFIGURED
    template = "{kind} {name} could not be found."
    kind: str
    name: str


class Conflict(FleetError):
    """The object exists already, or its state forbids the operation. ``reason`` begins with a verb: "exists already"."""

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = "{kind} {name} {reason}"
    kind: str
    name: str
    reason: str


class NotSupported(FleetError):
    """The configured scheduler driver does not have this operation."""

    code = 501
    reason_code = Reason.MISCONFIGURED
    template = "{what} is not supported by {driver}."


class QuotaExceeded(FleetError):
    """A project would have more than its quota. Delete something, or ask the operator for a larger quota.

    ``exceeded`` has a mapping for each resource: ``resource``, ``quota``, ``used`` and ``asked``.
    """

    code = 403
    reason_code = Reason.POLICY
    final = True
    project_id: str
    exceeded: list[dict[str, object]]

    @property
    def message(self) -> str:
        each = "{resource} ({asked} requested, {used} of {quota} used)"
        resources = ", ".join(each.format(**found) for found in self.exceeded)
        return f"Quota exceeded in project {self.project_id}: {resources}"
