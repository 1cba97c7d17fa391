# SPDX-License-Identifier: Apache-2.0
"""Build what iSulad sends to plugins for the kubelet's requests.

Sources: src/daemon/common/nri/nri_convert.cc and v1_cri_pod_sandbox_manager_service.cc of iSulad,
and recorded traffic. Its long names and its CreateContainer without an id are rules of the profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import Plain

from . import nri_values
from .cri_request import ContainerRequest, SandboxRequest
from .identity import go_json


@dataclass(frozen=True, slots=True)
class Isulad:
    """iSulad, on any node."""

    has_recursive_readonly = False

    def sandbox(self, request: SandboxRequest) -> api.PodSandbox:
        """Return a pod as it is when its sandbox runs."""
        prefix = "io.kubernetes.cri."
        own = {
            "cri.sandbox.isulad.checkpoint": _checkpoint(request),
            f"{prefix}container-type": "sandbox",
            f"{prefix}sandbox-attempt": str(request.attempt),
            f"{prefix}sandbox-name": request.name,
            f"{prefix}sandbox-namespace": request.namespace,
            f"{prefix}sandbox-uid": request.uid,
        }
        labels = {"cri.isulad.type": "podsandbox", "io.kubernetes.container.name": "POD"}
        return nri_values.sandbox(
            request,
            labels=labels,
            annotations=own,
            linux=api.LinuxPodSandbox(cgroup_parent=request.cgroup_parent),
            pid=request.pid,
        )

    def container(self, pod: SandboxRequest, request: ContainerRequest) -> api.Container:
        """Return a container as it is in CreateContainer: the request, without the command."""
        resources = nri_values.requested_resources(request.resources)
        resources.unified.update(request.resources.unified)
        return nri_values.container(
            pod,
            request,
            labels=request.labels,
            annotations=request.annotations,
            args=request.args,
            env=request.env,
            mounts=map(nri_values.bind_mount, request.mounts),
            linux=api.LinuxContainer(resources=resources),
        )

    def remarks(self, request: ContainerRequest) -> Iterator[str]:
        """Yield what is unknown of a container as this runtime sends it."""
        if request.command:
            yield f"container {request.name}: iSulad sends its arguments without its command"


def _checkpoint(request: SandboxRequest) -> str:
    data: dict[str, Plain] = {"host_network": True} if request.namespaces.host_network else {}
    value: dict[str, Plain] = {
        "version": "v1",
        "name": request.name,
        "ns": request.namespace,
        "data": data,
    }
    value["checksum"] = hashlib.sha256(go_json(value).encode()).hexdigest()
    return go_json(value)
