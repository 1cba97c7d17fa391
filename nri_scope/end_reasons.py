# SPDX-License-Identifier: Apache-2.0
"""Texts of the reasons for the end of a connection: made, and parsed, only here.

In: what ended a connection, or the text in a recording of any version. Out: that text, or its
meaning. A changed text must stay readable in the recordings that have the former one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

RUNTIME, PLUGIN = "the runtime", "the plugin"
"""Names of the peers of a connection, for the functions below."""

ORPHANED = "the process that was connected to the runtime has ended"
"""Reason for the end of a connection whose process was killed, such as a tap by the runtime."""

NEW_SOCKET = f"{RUNTIME}'s socket was made anew"
"""Reason for a connection that nri-scope ended because the runtime listens on another socket. After
a reload, Docker Engine keeps older connections open, and sends nothing more on them."""

RUNTIME_RESTARTS, RUNTIME_ENDED = f"{RUNTIME} restarts", f"{RUNTIME} has ended"
"""Reasons of an emulated runtime."""

EXIT_STATUS = "exit status"
"""Beginning of how a process ended by itself, before its number."""

_WHERE = {False: "", True: " in the middle of a message"}
_TOO_LARGE = re.compile(rf"{RUNTIME}.* (\w+) of (\d+) bytes.*the limit is (\d+)", re.ASCII)


def closed_by(peer: str, *, in_message: bool = False) -> str:
    """Return the reason for a connection of nri-scope itself that ``peer`` closed."""
    return f"closed by {peer}{_WHERE[in_message]}"


def tapped_close(peer: str, error: str = "", *, in_message: bool = False) -> str:
    """Return the reason for a tapped connection that ``peer`` closed first."""
    return f"{peer} closed the connection{_WHERE[in_message]}{f': {error}' if error else ''}"


def protocol_error(peer: str, problem: str) -> str:
    """Return the reason for a connection that ended as ``peer`` violated the protocol."""
    return f"protocol error of {peer}: {problem}"


def refused(problem: str) -> str:
    """Return the reason for a connection whose registration the runtime refused."""
    return f"{RUNTIME} refused the registration: {problem}"


def with_exit(reason: str, exit_words: str) -> str:
    """Return the reason for a connection whose launched plugin ended, with how it ended."""
    return f"{reason}: {PLUGIN} ended, {exit_words}"


def over_limit(message: str, size: int, limit: int, place: str = "") -> str:
    """Return words for a message or frame that is too large, for `protocol_error` and for gaps."""
    return f"{message} of {size} bytes{place}; the limit is {limit}"


class EndReason(NamedTuple):
    """Meaning of the reason for the end of a session."""

    is_refusal: bool
    """The runtime refused the registration."""
    is_by_runtime: bool
    """The runtime closed the connection."""
    has_plugin_exit: bool
    """The process of the launched plugin ended."""
    is_plugin_failure: bool
    """This process, or the tap's process, ended first, with an exit status other than 0."""
    is_exit_with_runtime: bool
    """This process ended because the runtime restarted, ended, or closed the connection."""


def parse_end_reason(text: str) -> EndReason:
    """Return the meaning of `Session.end_reason`; all False for an empty or unknown text."""
    has_plugin_exit = with_exit("", "") in text
    is_plugins = text.startswith((ORPHANED, with_exit(tapped_close(PLUGIN), "")))
    return EndReason(
        is_refusal=text.startswith(refused("")),
        is_by_runtime=text.startswith((tapped_close(RUNTIME), closed_by(RUNTIME))),
        has_plugin_exit=has_plugin_exit,
        is_plugin_failure=is_plugins and f"{EXIT_STATUS} 0" not in text,
        is_exit_with_runtime=has_plugin_exit and text.startswith(f"{RUNTIME} "),
    )


def names_runtime(text: str) -> bool:
    """Return whether a tapped call is unanswered because the runtime closed the connection."""
    return tapped_close(RUNTIME) in text


def oversized_message(reasons: Iterable[str]) -> tuple[str, int, int] | None:
    """Return the method, size and limit in bytes of a runtime's message that was too large.

    The method is "message" or "frame" if unknown. None if none of the ``reasons``, of the end of a
    session and of its gaps, is such a message.
    """
    match = next(filter(None, map(_TOO_LARGE.search, reasons)), None)
    return None if match is None else (match[1], int(match[2]), int(match[3]))
