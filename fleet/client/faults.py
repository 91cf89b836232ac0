# SPDX-License-Identifier: Apache-2.0
"""The faults of a failed build as text: what each filter dropped, and every attempt.

The commands ``boot``, ``server show`` and ``explain`` print it, as do :mod:`fleet_trial.demo` and replays.
"""

from __future__ import annotations

from collections.abc import Sequence

from cliff import columns

from fleet.client.connection import Record

#: Stands in a failure for the host, where several hosts had the same one.
_ANY_HOST = "HOST"


class Faults(columns.FormattableColumn[Sequence[Record]]):
    """The faults of an instance, newest first, each with the hosts that every filter received and kept."""

    def human_readable(self) -> str:
        return "\n".join(line for fault in self._value for line in fault_lines(fault))


class Attempts(columns.FormattableColumn[Sequence[Record]]):
    """The tried hosts: place, result and duration."""

    def human_readable(self) -> str:
        return "\n".join(_attempt_line(event) for event in self._value if event["attempt"])


def brief(fault: Record) -> str:
    """Return the message of a fault; of one with several attempts, each failure once with the hosts that had it."""
    tried = (fault.get("details") or {}).get("attempts") or []
    if len(tried) < 2:
        return str(fault.get("message", ""))
    hosts: dict[str, list[str]] = {}
    for each in tried:
        step = f" in step {each['step']}" if each.get("step") else ""
        said = str(each.get("reason") or each.get("result") or "")
        hosts.setdefault(f"{step}: {said.replace(str(each['host']), _ANY_HOST)}", []).append(str(each["host"]))
    parts = [
        f"{', '.join(dict.fromkeys(sorted(names)))}{failure.replace(_ANY_HOST, names[0] if len(names) == 1 else _ANY_HOST)}"
        for failure, names in hosts.items()
    ]
    return f"{len(tried)} attempts failed. {'; '.join(parts)}"


def fault_lines(fault: Record) -> list[str]:
    details = fault.get("details") or {}
    code = details.get("reason_code")
    said = f"{code}: " if code else ""
    lines = [f"{said}{fault.get('message', '')} ({fault.get('error')}, code {fault.get('code')})"]
    return lines + [f"  {line}" for line in record_lines(details)]


def record_lines(record: Record) -> list[str]:
    """Return a decision record as lines: what each filter received and kept, and the nearest misses."""
    lines = []
    if record.get("considered") is not None:
        lines.append(f"hosts considered: {record['considered']}")
    lines += filter_lines(record.get("filters") or [])
    nearest = record.get("nearest") or []
    lines += ["nearest:"] if nearest else []
    lines += [f"  {miss['text']}" for miss in nearest]
    lines += list(record.get("remarks") or [])
    return lines + (state_lines(record["state"]) if record.get("state") else [])


def filter_lines(filters: Sequence[Record]) -> list[str]:
    width = max((len(each["name"]) for each in filters), default=0)
    return [f"{each['name']:{width}}  {each['start']} -> {each['end']}" for each in filters]


def state_lines(state: Record) -> list[str]:
    """Return the age of the scheduler's state."""
    stale = "STALE: the database could not be read; " if state.get("stale") else ""
    return [f"{stale}state of the hosts: {state['age_s']:.1f} s old, generation {state['generation']}"]


def _attempt_line(event: Record) -> str:
    parts = [f"attempt {event.get('attempt', '-')}", str(event.get("event", ""))]
    if event.get("host"):
        parts.append(f"on {_place(event)}")
    parts.append(str(event.get("result") or "begun"))
    if event.get("step"):
        parts.append(f"in step {event['step']}")
    if event.get("duration_s") is not None:
        parts.append(f"after {event['duration_s']:.1f} s")
    line = " ".join(parts)
    return f"{line}: {event['message']}" if event.get("message") else line


def _place(event: Record) -> str:
    node = event.get("node")
    return f"{event['host']}:{node}" if node and node != event["host"] else str(event["host"])


def reason(fault: Record) -> str:
    """Return a fault in few words, for counting: the error's class, its code, and the filter that left no host."""
    details = fault.get("details") or {}
    words = [str(details["reason_code"])] if details.get("reason_code") else []
    words += [each["name"] for each in details.get("filters") or [] if each["start"] and not each["end"]]
    error = str(fault.get("error") or fault.get("code"))
    return f"{error}: {' by '.join(words)}" if words else error
