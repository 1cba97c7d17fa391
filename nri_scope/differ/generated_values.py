# SPDX-License-Identifier: Apache-2.0
"""Replace values that are generated for each container: ids, process ids, random names, times.

Each becomes its kind (``<container id>``), so that two containers with the same configuration
are equal in all fields.
"""

from __future__ import annotations

import re

from nri_scope.events import Pod
from nri_scope.specs import Json, Spec, value_at

from .attribution.history import History

MIN_ID = 6
"""Minimum length of a replaced id, in characters. Runtimes' ids have 64, uids 36; shorter ids could
be ordinary words."""

_SANDBOX_ID = "io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"
_POD_UID = "io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"
"""Annotations in which containerd, CRI-O and the kubelet store the pod's uid."""

_TIMES = frozenset({"io.kubernetes.cri-o.Created", "kubernetes.io/config.seen"})
_ADDRESS = "io.kubernetes.cri-o.IP."

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS = (
    # Namespaces of the pod: containerd names them by a process, CRI-O and CNI by a random name.
    (re.compile(r"^/proc/\d+/ns/"), "/proc/<pid>/ns/"),
    (re.compile(rf"((?:ipc|net|pid|user|uts)ns/(?:cni-)?){_UUID}$"), r"\1<uuid>"),
    # A container's own layer, in CRI-O's storage.
    (re.compile(r"(/overlay/)[0-9a-f]{64}(/merged)"), r"\1<layer>\2"),
    # The kubelet's names: a container's termination log, the volume of the API server's token.
    (re.compile(r"(/containers/[^/]+/)[0-9a-f]{8}$"), r"\1<file>"),
    (re.compile(r"(/kube-api-access-)[a-z0-9]{5}(?=/|$)"), r"\1<name>"),
)


class Generated:
    """The generated values of one container."""

    def __init__(self, container_id: str, pod_id: str = "", pod_uid: str = "") -> None:
        names = {
            container_id: "<container id>",
            pod_id: "<pod id>",
            pod_uid: "<pod uid>",
            # The spelling in names of systemd slices.
            pod_uid.replace("-", "_"): "<pod uid>",
        }
        self._names = {text: name for text, name in names.items() if len(text) >= MIN_ID}
        longest_first = sorted(self._names, key=len, reverse=True)
        # Not inside a longer word, except after "pod", which kubelets prepend to a uid.
        self._ids = re.compile(
            rf"(?:(?<![0-9A-Za-z])|(?<=pod))(?:{'|'.join(map(re.escape, longest_first))})"
            r"(?![0-9A-Za-z])"
            if self._names
            else r"(?!)"
        )

    @classmethod
    def of(cls, history: History, pod: Pod | None = None) -> Generated:
        """Find the generated values of a container in `pod`, or else in its annotations."""
        if pod is not None:
            return cls(history.id, pod.id, pod.uid)
        specs = [history.spec, history.real or {}]
        return cls(history.id, _annotation(specs, _SANDBOX_ID), _annotation(specs, _POD_UID))

    def text(self, text: str) -> str:
        """Return `text` with generated values replaced."""
        if len(text) < MIN_ID:
            return text
        text = self._ids.sub(self._name, text)
        if "/" in text:
            for pattern, replacement in _PATTERNS:
                text = pattern.sub(replacement, text)
        return text

    def spec(self, spec: Spec) -> Spec:
        """Return `spec` with generated values replaced, in values and in keys."""
        new: Spec = {}
        # Iterative: a runtime's message may be nested deeper than Python's stack allows.
        work: list[tuple[Json, Json]] = [(spec, new)]
        while work:
            source, target = work.pop()
            if isinstance(source, dict) and isinstance(target, dict):
                for key, value in source.items():
                    target[self._ids.sub(self._name, key)] = self._copy(value, work)
            elif isinstance(source, list) and isinstance(target, list):
                target.extend(self._copy(value, work) for value in source)
        annotations = new.get("annotations")
        if isinstance(annotations, dict):
            for key in annotations:
                if key in _TIMES:
                    annotations[key] = "<time>"
                elif key.startswith(_ADDRESS):
                    annotations[key] = "<pod address>"
        return new

    def original(self, path: str) -> str:
        """Return the container's own path for a `path` in the result of `spec`."""
        for text, name in self._names.items():
            path = path.replace(name, text)
        return path

    def _name(self, match: re.Match[str]) -> str:
        return self._names[match[0]]

    def _copy(self, value: Json, work: list[tuple[Json, Json]]) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        new: Json = {} if isinstance(value, dict) else []
        work.append((value, new))
        return new


def _annotation(specs: list[Spec], keys: tuple[str, ...]) -> str:
    for spec in specs:
        annotations = value_at(spec, "/annotations")
        if isinstance(annotations, dict):
            for key in keys:
                value = annotations.get(key)
                if isinstance(value, str):
                    return value
    return ""
