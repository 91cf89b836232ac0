# SPDX-License-Identifier: Apache-2.0
"""The cause of a failure, read from its traceback: what the door lacks, in the words of a client."""

from __future__ import annotations

import re

#: Cause by what a traceback has; the first one that fits holds.
_CAUSES = (
    ("answer schema", r"InvalidHTTPResponseBody|HTTP response body is invalid|InvalidHTTPResponseHeader"),
    ("501: not there", r"NotImplemented\b|UnexpectedResponseCode.*501"),
    (
        "405: no such method",
        r"Http status is (?:'405'|405)|status code received\s*\n?Details: 405|HTTP code 405|\b405\b",
    ),
    ("404: no such path or object", r"lib\.exceptions\.NotFound"),
    ("400: refused as malformed", r"lib\.exceptions\.BadRequest"),
    ("409: refused as a conflict", r"lib\.exceptions\.Conflict"),
    ("403: refused by policy", r"lib\.exceptions\.Forbidden"),
    ("413: over a quota", r"lib\.exceptions\.OverLimit"),
    ("500: an error of the service", r"lib\.exceptions\.ServerFault|IdentityError|UnexpectedResponseCode.*50\d"),
    ("success code", r"InvalidHttpSuccessCode"),
    ("a wait that was too long", r"TimeoutException"),
    ("not refused", r"MismatchError: .* returned|not raised|MismatchError: <bound method"),
    ("a resource in ERROR", r"BuildErrorException|ERROR status|VolumeResourceBuildErrorException"),
)


_RAISED = re.compile(r"tempest\.|testtools\.|[\w.]+(Error|Exception)\b")


def of(traceback: str) -> str:
    """Return the cause. :param traceback: as the test reported it"""
    # What was cleaned up afterwards, and the log, are no causes.
    raised = [line for line in traceback.splitlines() if _RAISED.match(line.strip())]
    for text in ("\n".join(raised), traceback):
        for cause, pattern in _CAUSES:
            if text and re.search(pattern, text):
                return cause
    return "behaviour"


def summary(traceback: str) -> str:
    """Return the last lines of a traceback in one, without the log that follows it."""
    lines = [line.strip() for line in traceback.strip().splitlines() if line.strip()]
    starts = [
        number
        for number, line in enumerate(lines)
        if re.match(r"(tempest\.|testtools\.|[\w.]+(Error|Exception)\b)", line)
    ]
    said = lines[starts[0] :] if starts else lines[-2:]
    return " ".join(said)[:400]
