# SPDX-License-Identifier: Apache-2.0
"""The scheduler hints that built-in filters read. Other hints are free-form, for filters of users.

Read by :mod:`fleet.objects.build_request` and :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from fleet import errors
from fleet.objects import fields, hint_query

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_CIDR = "/24"
_FIELD = "filter_properties.scheduler_hints"


def check(hints: Mapping[str, object], field: str) -> None:
    """:raises errors.InvalidInput: a hint has not the form that its filter reads; its field is named"""
    for name in ("same_host", "different_host"):
        fields.parse(list[fields.Uuid], neighbours(hints, name, field), f"{field}.{name}")
    fields.parse(fields.Text, hints.get("group") or "", f"{field}.group")
    query(hints, field)
    near_network(hints, field)


def neighbours(hints: Mapping[str, object], name: str, field: str = _FIELD) -> list[str]:
    """Return the instances that the hint ``name`` names, one or a list. :raises errors.InvalidInput:"""
    value = hints.get(name)
    if not value and (value is None or isinstance(value, str)):
        return []
    wanted: list[str] = fields.parse(list[fields.Text], [value] if isinstance(value, str) else value, f"{field}.{name}")
    return wanted


def query(hints: Mapping[str, object], field: str = _FIELD) -> object:
    """Return the parsed hint ``query``; None if there is none. :raises errors.InvalidInput:"""
    text = single(hints.get("query"))
    if not text:
        return None
    if not isinstance(text, str):
        raise errors.InvalidInput(field=f"{field}.query", reason="must be JSON text")
    try:
        return hint_query.parse(text)
    except ValueError as wrong:
        raise errors.InvalidInput(field=f"{field}.query", reason=f"cannot be read: {wrong}") from None


def near_network(hints: Mapping[str, object], field: str = _FIELD) -> Network | None:
    """Return the network of the hints ``build_near_host_ip`` and ``cidr``; None without the former.

    :raises errors.InvalidInput:
    """
    near, cidr = single(hints.get("build_near_host_ip")), single(hints.get("cidr")) or DEFAULT_CIDR
    if not isinstance(cidr, str) or not cidr.startswith("/"):
        raise errors.InvalidInput(
            field=f"{field}.cidr", reason=f"must be a prefix length such as /24, got {cidr!r:.60}"
        )
    if not near:
        return None
    try:
        ipaddress.ip_address(near if isinstance(near, str) else "")
    except ValueError:
        reason = f"must be an IP address, got {near!r:.60}"
        raise errors.InvalidInput(field=f"{field}.build_near_host_ip", reason=reason) from None
    try:
        return ipaddress.ip_network(f"{near}{cidr}", strict=False)
    except ValueError:
        reason = f"gives no network with the hint cidr: {near}{cidr}"[:255]
        raise errors.InvalidInput(field=f"{field}.build_near_host_ip", reason=reason) from None


def single(hint: object) -> object:
    """Return a hint that may have one value; newer releases of nova send a list of one."""
    return hint[0] if isinstance(hint, list) and len(hint) == 1 else hint
