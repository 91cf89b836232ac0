# SPDX-License-Identifier: Apache-2.0
"""How a failed build is explained: the fault, what each filter dropped, and every attempt."""

from __future__ import annotations

from typing import Any

from cliff import columns

from fleet.cli.command import Record


class Faults(columns.FormattableColumn):
    """The faults of an instance, newest first, each with the hosts that every filter saw and kept."""

    def human_readable(self) -> str:
        return "\n".join(line for fault in self._value for line in fault_lines(fault))


class Attempts(columns.FormattableColumn):
    """The steps of a build: where, how it ended and how long it took."""

    def human_readable(self) -> str:
        return "\n".join(map(_attempt_line, self._value))


def fault_lines(fault: Record) -> list[str]:
    details = fault.get("details") or {}
    lines = [f"{fault.get('message', '')} ({fault.get('error')}, code {fault.get('code')})"]
    filters = details.get("filters") or []
    if details.get("considered") is not None:
        lines.append(f"  hosts considered: {details['considered']}")
    width = max((len(each["name"]) for each in filters), default=0)
    lines += [f"  {each['name']:{width}}  {each['start']} -> {each['end']}" for each in filters]
    return lines


def _attempt_line(event: Record) -> str:
    parts = [f"attempt {event.get('attempt', '-')}", str(event.get("event", ""))]
    if event.get("host"):
        parts.append(f"on {_place(event)}")
    parts.append(str(event.get("result") or "begun"))
    if event.get("duration_s") is not None:
        parts.append(f"after {event['duration_s']:.1f} s")
    line = " ".join(parts)
    return f"{line}: {event['message']}" if event.get("message") else line


def _place(event: Record) -> str:
    node = event.get("node")
    return f"{event['host']}:{node}" if node and node != event["host"] else str(event["host"])


def reason(fault: dict[str, Any]) -> str:
    """The fault in a few words, to count like with like: the filter that left no host, else the error's class."""
    for each in (fault.get("details") or {}).get("filters") or []:
        if each["start"] and not each["end"]:
            return f"{fault.get('error')}: {each['name']}"
    return str(fault.get("error") or fault.get("code"))
