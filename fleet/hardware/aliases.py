# SPDX-License-Identifier: Apache-2.0
"""PCI requests of a flavor.

Conductors make the requests when they accept a build, a resize or a rebuild. The operator's aliases define their
names.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Literal

from fleet import errors
from fleet.hardware.constraints import EXTRA_SPECS, PROPERTIES
from fleet.objects import Flavor, Image, fields, structure
from fleet.objects.pci import NumaPolicy, PciRequest, Properties

ALIAS = "pci_passthrough:alias"
OPTION = "[pci] alias"
POLICY_SPEC, POLICY_PROPERTY = "hw:pci_numa_affinity_policy", "hw_pci_numa_affinity_policy"

_MOST_DEVICES = 64


@dataclasses.dataclass(frozen=True)
class Alias:
    """One alternative of an alias name."""

    name: fields.Name
    vendor_id: fields.Text | None = None
    product_id: fields.Text | None = None
    device_type: Literal["type-PCI", "type-PF", "type-VF", "vdpa"] | None = None
    numa_policy: NumaPolicy | None = None

    def properties(self) -> Properties:
        named = {"vendor_id": self.vendor_id, "product_id": self.product_id, "dev_type": self.device_type}
        return {key: value for key, value in named.items() if value is not None}


Aliases = Mapping[str, tuple[Alias, ...]]


def parse_aliases(texts: Sequence[str]) -> Aliases:
    """Parse the option's values, each the JSON of one alias. Values with the same name are alternatives.

    :raises errors.ConfigError: a value is invalid, or two of a name differ in type or policy
    """
    found: dict[str, tuple[Alias, ...]] = {}
    for text in texts:
        try:
            alias = fields.parse(Alias, structure.plain(text, "alias"), "alias")
        except errors.InvalidInput as invalid:
            raise errors.ConfigError(option=OPTION, reason=f"has {text}, where {invalid.message}") from None
        others = found.get(alias.name, ())
        if any((each.device_type, each.numa_policy) != (alias.device_type, alias.numa_policy) for each in others):
            reason = f"has entries of {alias.name} with different device_type or numa_policy"
            raise errors.ConfigError(option=OPTION, reason=reason)
        if not alias.properties():
            raise errors.ConfigError(
                option=OPTION, reason=f"has the alias {alias.name}, which names no property of a device"
            )
        found[alias.name] = (*others, alias)
    return found


def requested_devices(flavor: Flavor, image: Image, aliases: Aliases) -> tuple[PciRequest, ...]:
    """Parse ``pci_passthrough:alias``: ``NAME:COUNT``, separated by commas; without COUNT it is one device.

    :raises errors.InvalidInput: naming the wrong extra spec or image property
    """
    text = flavor.extra_specs.get(ALIAS, "")
    policy = _numa_policy(flavor, image)
    return tuple(
        _request(part.strip(), number, policy, aliases) for number, part in enumerate(text.split(",") if text else ())
    )


def _request(text: str, number: int, policy: NumaPolicy | None, aliases: Aliases) -> PciRequest:
    name, has_count, count = text.partition(":")
    if name not in aliases:
        raise _invalid(f"{name!r} is not an alias that the conductor knows; option {OPTION} declares them")
    if has_count and (not (count.isascii() and count.isdigit()) or not 0 < int(count) <= _MOST_DEVICES):
        raise _invalid(f"{count!r} is no number of devices from 1 to {_MOST_DEVICES}")
    alternatives = aliases[name]
    return PciRequest(
        count=int(count or 1),
        spec=tuple(alias.properties() for alias in alternatives),
        alias_name=name,
        # Unique within the instance, which holds the devices; that is enough.
        request_id=f"{number}-{name}"[:255],
        numa_policy=policy or alternatives[0].numa_policy,
    )


def _numa_policy(flavor: Flavor, image: Image) -> NumaPolicy | None:
    """Return the policy: that of flavor or image overrides the alias's."""
    flavors = _policy(flavor.extra_specs, POLICY_SPEC, EXTRA_SPECS)
    images = _policy(image.properties, POLICY_PROPERTY, PROPERTIES)
    if flavors and images and flavors != images:
        reason = f"is {images}, which {EXTRA_SPECS}.{POLICY_SPEC} {flavors} forbids"
        raise errors.InvalidInput(field=f"{PROPERTIES}.{POLICY_PROPERTY}", reason=reason)
    return flavors or images


def _policy(values: Mapping[str, object], name: str, path: str) -> NumaPolicy | None:
    value = values.get(name)
    if value is None:
        return None
    known = typing.get_args(NumaPolicy)
    if value not in known:
        raise errors.InvalidInput(field=f"{path}.{name}", reason=f"must be one of {', '.join(known)}, got {value!r}")
    return typing.cast(NumaPolicy, value)


def _invalid(reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(field=f"{EXTRA_SPECS}.{ALIAS}", reason=reason)
