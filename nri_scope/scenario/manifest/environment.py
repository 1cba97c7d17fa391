# SPDX-License-Identifier: Apache-2.0
"""Build a container's environment as the kubelet does (``makeEnvironmentVariables``).

The kubelet sends variables in random order. Here they have the order of the manifest, before those
of services.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache, partial
from itertools import chain

from nri_scope.text.escape import safe

from .field import ManifestField, milli, whole
from .node_facts import NodeFacts
from .pod_spec import ContainerSpec, PodSpec

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_NAME = re.compile(r"[^=\0]+")
MAX_EXPANDED = 1 << 20
"""Maximum length of a value with its references to other variables replaced."""
MAX_VARIABLES = 4 << 20
"""Maximum length of the values of a container: no runtime sends a longer message."""

_Variable = tuple[ManifestField, str, str]
"""Where a variable is in the manifest, its name and its value."""


def environment(
    pod: PodSpec, container: ContainerSpec, node: NodeFacts, ips: list[str]
) -> dict[str, str]:
    """Return the variables that the kubelet sends for a container."""
    services = dict(_service_variables(node.service_ip))
    if pod.field["enableServiceLinks"].flag(True):
        pod.remarks.add(
            "variables of services are unknown, but for those of the service kubernetes"
        )
    source = _VariableSource(pod, container, node, ips)
    variables: dict[str, str] = {}
    listed = source.listed(variables, services)
    length = 0
    for field, name, value in chain(source.imported(), listed):
        variables[name] = value
        length += len(name) + len(value)
        if length > MAX_VARIABLES:
            raise field.error(f"longer than {MAX_VARIABLES} characters with the variables before")
    if index := pod.object.annotations.get("batch.kubernetes.io/job-completion-index"):
        variables.setdefault("JOB_COMPLETION_INDEX", index)
    return variables | {name: value for name, value in services.items() if name not in variables}


def expand(text: str, variables: Mapping[str, str], field: ManifestField) -> str:
    """Replace references to variables, ``$(NAME)``, as the kubelet does."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[1] is None else variables.get(match[1], match[0])

    length = len(text) + sum(len(replaced(match)) for match in _REFERENCE.finditer(text))
    if length > MAX_EXPANDED:
        raise field.error(f"longer than {MAX_EXPANDED} characters with its variables")
    return _REFERENCE.sub(replaced, text)


def _service_variables(ip: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of the service "kubernetes", which all pods get."""
    host = f"[{ip}]" if ":" in ip else ip
    yield "KUBERNETES_SERVICE_HOST", ip
    yield "KUBERNETES_SERVICE_PORT", "443"
    yield "KUBERNETES_SERVICE_PORT_HTTPS", "443"
    yield "KUBERNETES_PORT", f"tcp://{host}:443"
    yield "KUBERNETES_PORT_443_TCP", f"tcp://{host}:443"
    yield "KUBERNETES_PORT_443_TCP_PROTO", "tcp"
    yield "KUBERNETES_PORT_443_TCP_PORT", "443"
    yield "KUBERNETES_PORT_443_TCP_ADDR", ip


def _values(pod: PodSpec, kind: str, name: str) -> dict[str, str] | None:
    """Return the data of a ConfigMap or Secret in the manifest; None if it is not there."""
    map_object = pod.sibling(kind, name)
    if map_object is None:
        return None
    if kind == "ConfigMap":
        return map_object["data"].string_map()
    values = {key: _decoded(value) for key, value in map_object["data"].entries()}
    return values | map_object["stringData"].string_map()


def _decoded(field: ManifestField) -> str:
    try:
        return base64.b64decode(field.text(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise field.error("is not text in base64") from None


class _VariableSource:
    """Values of the variables of a container that the manifest contains elsewhere."""

    def __init__(
        self, pod: PodSpec, container: ContainerSpec, node: NodeFacts, ips: list[str]
    ) -> None:
        self._pod = pod
        self._container = container
        self._node = node
        self._ips = ips
        # Thousands of variables may refer to the same map.
        self._values = cache(partial(_values, pod))
        self._place = f"container {container.name}"

    def imported(self) -> Iterator[_Variable]:
        """Yield the variables of ``envFrom``."""
        for field in self._container.field["envFrom"].items():
            for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                if not field[key]:
                    continue
                name = field[key]["name"].required_text()
                values = self._values(kind, name)
                if values is None:
                    problem = f"the variables of {kind} {safe(name, 80)} are unknown"
                    self._pod.remarks.add(f"{self._place}: {problem}")
                    continue
                for variable, value in values.items():
                    yield field, field["prefix"].text() + variable, value

    def listed(self, variables: dict[str, str], services: dict[str, str]) -> Iterator[_Variable]:
        """Yield the variables of ``env``, which may refer to the ``variables`` before."""
        resolvable = ChainMap(variables, services)
        for field in self._container.field["env"].items():
            name = field["name"].name(_NAME, "a name of a variable")
            if value := field["value"].text():
                yield field, name, expand(value, resolvable, field["value"])
            elif field["valueFrom"]:
                self._place = f"container {self._container.name}: variable {safe(name, 80)}"
                resolved = self._value(field["valueFrom"])
                if resolved is not None:
                    yield field, name, resolved
            else:
                yield field, name, ""

    def _value(self, field: ManifestField) -> str | None:
        """Return the value, or a text that stands for an unknown one; None for no variable."""
        if field["fieldRef"]:
            return self._of_field(field["fieldRef"]["fieldPath"])
        if field["resourceFieldRef"]:
            return self._of_resource(field["resourceFieldRef"])
        for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
            if field[key]:
                return self._of_key(kind, field[key])
        self._pod.remarks.add(f"{self._place}: its value is unknown")
        return "<unknown>"

    def _of_field(self, field: ManifestField) -> str:
        pod, path = self._pod.object, field.required_text()
        if subscript := _SUBSCRIPT.fullmatch(path):
            values = pod.labels if subscript[1] == "labels" else pod.annotations
            return values.get(subscript[2], "")
        maps = {"metadata.labels": pod.labels, "metadata.annotations": pod.annotations}
        if path in maps:
            return _format_map(maps[path])
        host_ips = [address["ip"].text() for address in pod.status["hostIPs"].items()] or [
            pod.status["hostIP"].text(self._node.ip)
        ]
        downward_fields = {
            "metadata.name": pod.name,
            "metadata.namespace": pod.namespace,
            "metadata.uid": pod.uid,
            "spec.nodeName": pod.spec["nodeName"].text(self._node.name),
            "spec.serviceAccountName": pod.spec["serviceAccountName"].text("default"),
            "status.hostIP": host_ips[0],
            "status.hostIPs": ",".join(host_ips),
            "status.podIP": self._ips[0],
            "status.podIPs": ",".join(self._ips),
        }
        if path not in downward_fields:
            raise field.error(f"{safe(path, 80)!r} is not a field of the downward API")
        if path.startswith(("status.", "spec.nodeName")) and not pod.status:
            self._pod.remarks.add(f"{self._place}: {path} is assumed")
        return downward_fields[path]

    def _of_resource(self, field: ManifestField) -> str:
        container, name = self._container, field["containerName"].text()
        if name:
            matching = [container for container in self._pod.containers if container.name == name]
            if not matching:
                raise field["containerName"].error(f"there is no container {safe(name, 80)!r}")
            container = matching[0]
        kind, _, resource = field["resource"].required_text().partition(".")
        if kind not in ("limits", "requests"):
            raise field["resource"].error("neither limits.NAME nor requests.NAME")
        amounts = container.limits if kind == "limits" else container.requests
        amount = amounts.get(resource, Fraction(0))
        if kind == "limits" and not amount:
            amount = self._limit_of_pod(resource)
        divisor = field["divisor"].quantity() if field["divisor"] else Fraction(0)
        if resource == "cpu":
            return str(math.ceil(Fraction(milli(amount), milli(divisor or Fraction(1)))))
        return str(math.ceil(Fraction(whole(amount), whole(divisor or Fraction(1)))))

    def _limit_of_pod(self, resource: str) -> Fraction:
        if amount := self._pod.limits.get(resource):
            return amount
        node = {"cpu": self._node.cpus, "memory": self._node.allocatable_memory}
        if resource in node or resource == "ephemeral-storage":
            assumed = f"the node's {resource} is assumed"
            if resource == "memory":
                assumed = "" if self._node.is_memory_known else self._node.memory_words
            elif resource == "cpu":
                assumed = f"a node with {self._node.cpus} processors is assumed"
            if assumed:
                self._pod.remarks.add(f"{self._place}: {assumed}")
        return Fraction(node.get(resource, 0))

    def _of_key(self, kind: str, field: ManifestField) -> str | None:
        name, key = field["name"].required_text(), field["key"].required_text()
        values = self._values(kind, name)
        if values is not None:
            if key not in values and not field["optional"].flag():
                raise field["key"].error(f"{kind} {safe(name, 80)} has no key {safe(key, 80)!r}")
            return values.get(key)
        self._pod.remarks.add(
            f"{self._place}: the key {safe(key, 80)} of {kind} {safe(name, 80)} is unknown"
        )
        return f"<{key} of {kind} {name}>"


def _format_map(values: Mapping[str, str]) -> str:
    """Return labels or annotations as the downward API writes them."""
    return "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items())
    )
