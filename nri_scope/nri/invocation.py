# SPDX-License-Identifier: Apache-2.0
"""NRI 0.1: one-shot plugins, which read a JSON request and write a JSON result.

The runtime executes ``TYPE invoke`` for each plugin of ``/etc/nri/conf.json``, in the order of that
list. A plugin sees the results of all earlier ones. Source: containerd/nri v0.1.0, client.go and
types/v1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox

from .plain import Plain, plain_json

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
METHODS = tuple(f"{INVOKE}/{state}" for state in STATES)
CREATE = METHODS[0]

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
    known = {
        **_texts(request.get("labels")),
        **_texts(spec.get("annotations") if isinstance(spec, dict) else None),
    }

    def name(*keys: str) -> str:
        return next((known[key] for key in keys if known.get(key)), "")

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
        isinstance(metadata, dict) and all(isinstance(one, str) for one in metadata.values())
    ):
        return "the metadata in its result is not a mapping of texts"
    return error or ""


def is_invocation(method: str, mark: str) -> bool:
    """Return whether an event, by its method and mark, is a well-formed request of NRI 0.1."""
    return method in METHODS and not mark


def _texts(value: Plain) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}
