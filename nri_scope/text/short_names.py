# SPDX-License-Identifier: Apache-2.0
"""Names of pods and containers in few columns.

Replicas of a workload differ in the last part of the pod's name, and the containers of a pod in
theirs, so names are cut in the middle: ``payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy``
becomes ``checko…x2x9z/istio-proxy``.
"""

from __future__ import annotations

from .escape import columns, safe

_SUFFIX = 5
"""Characters that Kubernetes appends to generated names."""
_ROOM_FOR_NAMESPACE = 16
"""Columns that a pod's name needs beside its namespace."""


def short_pod(name: str, width: int) -> str:
    """Return ``ns/pod`` in at most ``width`` columns; ``name`` is already safe."""
    if columns(name) <= width or not name.isascii():
        return safe(name, width)
    namespace, slash, pod = name.rpartition("/")
    if not slash:
        return middle_cut(pod, width)
    prefix = namespace if width - len(namespace) > _ROOM_FOR_NAMESPACE else "…"
    return safe(f"{prefix}/{middle_cut(pod, max(width - len(prefix) - 1, 1))}", width)


def short_container(name: str, width: int) -> str:
    """Return ``ns/pod/container`` in at most ``width`` columns; ``name`` is already safe.

    The container's name is cut last, and the pod's never below its generated suffix.
    """
    if columns(name) <= width or not name.isascii():
        return safe(name, width)
    before, slash, container = name.rpartition("/")
    if not slash:
        return middle_cut(container, width)
    namespace, _, pod = before.rpartition("/")
    if namespace and len(pod) + len(container) + 3 <= width:
        return f"…/{pod}/{container}"
    container = middle_cut(container, max(width - min(len(pod), _SUFFIX + 1) - 1, _SUFFIX))
    return safe(f"{middle_cut(pod, max(width - len(container) - 1, 1))}/{container}", width)


def middle_cut(name: str, width: int) -> str:
    """Return a name in at most ``width`` columns, with its last part if possible.

    The last part follows the last ``-``; of a shorter one, the last characters are kept.
    """
    if columns(name) <= width or width < 3 or not name.isascii():
        return safe(name, width)
    last = len(name) - name.rfind("-") - 1
    if not last <= max(_SUFFIX, width // 2) or last >= width:
        last = width // 2
    elif last < _SUFFIX:
        last = min(last + 1, width - 1)
    return f"{name[: width - last - 1]}…{name[-last:]}"
