# SPDX-License-Identifier: Apache-2.0
"""NRI 0.1: one-shot plugins, which read a JSON request and write a JSON result, and their list.

The runtime executes ``TYPE invoke`` for each plugin of ``/etc/nri/conf.json``, in the order of that
list. A plugin sees the results of all earlier ones. Source: containerd/nri v0.1.0, client.go and
types/v1. The client reads the list at every call, and ignores what follows the first JSON value.
Names of members are compared without regard to case (Go, encoding/json).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import UsageError

from .plain import Plain, plain_json, refuse_constant

VERSION = "0.1"
CONF_PATH = "/etc/nri/conf.json"
BINARY_PATH = "/opt/nri/bin"
"""Folder that the client appends to the runtime's PATH."""

INVOKE = "Invoke"
"""Method of an invocation whose request is malformed."""
SERVICE = "nri.v0.1"
"""Name that recordings use in place of a ttRPC service."""
STATES = ("create", "delete", "update", "pause", "resume")
"""States of requests; runtimes send only the first two."""
INVOCATIONS = tuple(f"{INVOKE}/{state}" for state in STATES)
CREATE_INVOCATION = INVOCATIONS[0]

REQUEST_MAX = 4 << 20
"""Maximum bytes of a request or a result: the limit of NRI's later versions."""

TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
"""A plugin's file name for which nri-scope makes files. The client has no such rule."""


class Invocation(NamedTuple):
    """The subject of a request."""

    method: str
    pod: PodSandbox
    """With the names that the runtime writes into annotations, or the kubelet into labels."""
    container: Container | None
    """None for a request about the pod's sandbox."""
    version: str


def parse_request(content: bytes) -> Invocation | None:
    """Return the subject of a request; None if it is not a request."""
    request = plain_json(content)
    if request is None:
        return None
    state, number = request.get("state"), request.get("id")
    sandbox = request.get("sandboxID", "")
    if state not in STATES or not isinstance(number, str) or not isinstance(sandbox, str):
        return None
    if not number:
        return None
    spec = request.get("spec")
    labels = {
        **_texts(request.get("labels")),
        **_texts(spec.get("annotations") if isinstance(spec, dict) else None),
    }

    def name(*keys: str) -> str:
        return next((labels[key] for key in keys if labels.get(key)), "")

    container = None
    try:
        pod = PodSandbox(
            id=sandbox,
            name=name("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"),
            namespace=name("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
            uid=name("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"),
        )
        if number != sandbox:
            container = Container(
                id=number,
                pod_sandbox_id=sandbox,
                name=name("io.kubernetes.cri.container-name", "io.kubernetes.container.name"),
            )
    except UnicodeEncodeError:
        # JSON can contain half of a surrogate pair, which is not text.
        return None
    version = request.get("version")
    return Invocation(
        f"{INVOKE}/{state}", pod, container, version if isinstance(version, str) else ""
    )


def result_problem(content: bytes) -> str:
    """Return why the client ends the chain after this output of a plugin; "" if it goes on.

    The exit status does not matter to the client.
    """
    if not content.strip():
        return "it wrote no result"
    result = plain_json(content)
    if result is None:
        return "its output is not a JSON object"
    error = result.get("error", "")
    if not isinstance(error, str | None):
        return "the error in its result is not a text"
    for key in ("plugin", "version"):
        if not isinstance(result.get(key, ""), str | None):
            return f"the {key} in its result is not a text"
    metadata = result.get("metadata")
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        return "the metadata in its result is not a mapping of texts"
    return error or ""


def is_invocation(method: str, mark: str) -> bool:
    """Return whether an event, by its method and mark, is a well-formed request of NRI 0.1."""
    return method in INVOCATIONS and not mark


def _texts(value: Plain) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


SIZE_MAX = 256 << 10
"""Maximum bytes of the list; real ones have some hundred."""


def listed_types(content: bytes) -> tuple[str, ...]:
    """Return the plugins in a list, in the order of the calls: programs, looked up in PATH without
    a slash. Raises UsageError if a runtime could not read it.
    """
    members = _document(content).by_name()
    version, plugins = members.get("version"), members.get("plugins")
    if version is not None and not isinstance(version, str):
        raise UsageError("its version is not a text")
    if plugins is not None and not isinstance(plugins, list):
        raise UsageError("its plugins are not a list")
    types: list[str] = []
    for number, plugin in enumerate(plugins or (), 1):
        if not isinstance(plugin, _Members):
            # The client would crash on null.
            raise UsageError(f"plugin {number} of its list is not an object")
        kind = plugin.by_name().get("type")
        if not isinstance(kind, str) or not kind:
            raise UsageError(f"plugin {number} of its list has no type")
        types.append(kind)
    return tuple(types)


def _document(content: bytes) -> _Members:
    """Return the first JSON value, which must be an object."""
    if len(content) > SIZE_MAX:
        raise UsageError(f"it has more than {SIZE_MAX >> 10} KiB")
    try:
        document, _ = _DECODER.raw_decode(content.decode().lstrip(" \t\r\n"))
    except UnicodeDecodeError:
        raise UsageError("it is not UTF-8") from None
    except RecursionError:
        raise UsageError("it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"it is not JSON: {error}") from None
    if not isinstance(document, _Members):
        raise UsageError("it is not a JSON object")
    return document


class _Members(dict[str, Any]):
    """A JSON object; ``is_unique``: whether its members have different names for the client."""

    is_unique = True

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Members:
        members = cls(pairs)
        members.is_unique = len({key.lower() for key in members}) == len(pairs)
        return members

    def by_name(self) -> dict[str, Any]:
        if not self.is_unique:
            raise UsageError("a member occurs twice in it")
        return {key.lower(): value for key, value in self.items()}


_DECODER = json.JSONDecoder(
    # Python limits the digits of integers, which the client does not read.
    parse_int=float,
    parse_constant=refuse_constant,
    object_pairs_hook=_Members.of,
)
