# SPDX-License-Identifier: Apache-2.0
"""Requests of the kubelet to a runtime, reduced to what a plugin can notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .resources import CriResources

Access = Literal["rw", "ro", "rro"]
Propagation = Literal["rprivate", "rslave", "rshared"]


@dataclass(frozen=True, slots=True)
class CriMount:
    """A folder or file of the node for a container."""

    destination: str
    source: str
    access: Access = "rw"
    propagation: Propagation = "rprivate"

    @property
    def options(self) -> tuple[str, str, str]:
        """Mount options as all runtimes write them."""
        return "rbind", self.propagation, self.access

    @property
    def depth(self) -> int:
        """Number of path elements, by which runtimes sort mounts."""
        return sum(1 for part in self.destination.split("/") if part not in ("", "."))


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces that a pod shares with its node or among its containers."""

    host_network: bool
    host_pid: bool
    host_ipc: bool
    shares_pid: bool
    """Whether the containers share one namespace of processes."""
    own_users: bool
    """Whether the pod has a namespace of users."""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """RunPodSandbox of the CRI."""

    id: str
    pid: int
    name: str
    namespace: str
    uid: str
    attempt: int
    hostname: str
    """The node's name for a pod with the network of its node."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    log_folder: str
    cgroup_parent: str
    resources: CriResources
    overhead: CriResources
    namespaces: Namespaces
    runtime_handler: str
    ips: Sequence[str]


@dataclass(frozen=True, slots=True)
class SeccompProfile:
    """Seccomp profile of a container; ``file`` of a profile on the node."""

    kind: Literal["RuntimeDefault", "Unconfined", "Localhost"]
    file: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """CreateContainer of the CRI."""

    id: str
    name: str
    attempt: int
    image: str
    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[tuple[str, str]]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    mounts: Sequence[CriMount]
    resources: CriResources
    uid: int
    gid: int
    groups: Sequence[int]
    """Supplemental groups."""
    seccomp: SeccompProfile
    is_privileged: bool
    has_readonly_root: bool
    has_tty: bool
    has_stdin: bool
    has_stdin_once: bool
    log_path: str
    """Path of the log below the pod's folder."""
