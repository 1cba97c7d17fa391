# SPDX-License-Identifier: Apache-2.0
"""Requests to a runtime: pods and containers as small values, and their CRI messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nri_scope._gen.cri.runtime import v1


@dataclass(frozen=True)
class PodSpec:
    """A pod sandbox with host networking, so that no CNI plugin is needed."""

    name: str
    namespace: str = "default"
    uid: str = ""
    """Empty: made from namespace, name and attempt."""
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    """Absolute, below each cgroup hierarchy's root; empty leaves it to the runtime."""
    log_directory: str = ""

    def to_message(self) -> v1.PodSandboxConfig:
        host = v1.NamespaceOption(network=v1.NamespaceMode.NODE)
        return v1.PodSandboxConfig(
            metadata=v1.PodSandboxMetadata(
                name=self.name,
                uid=self.uid or f"{self.namespace}-{self.name}-{self.attempt}",
                namespace=self.namespace,
                attempt=self.attempt,
            ),
            log_directory=self.log_directory,
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            linux=v1.LinuxPodSandboxConfig(
                cgroup_parent=self.cgroup_parent,
                security_context=v1.LinuxSandboxSecurityContext(namespace_options=host),
            ),
        )


@dataclass(frozen=True)
class Resources:
    """Limits of one container; 0 and empty mean "leave it as it is"."""

    cpu_period: int = 0
    """Microseconds."""
    cpu_quota: int = 0
    """Microseconds in each period."""
    cpu_shares: int = 0
    memory_limit: int = 0
    """Bytes."""
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    unified: Mapping[str, str] = field(default_factory=dict)
    """cgroup v2 keys."""

    def to_message(self) -> v1.LinuxContainerResources:
        return v1.LinuxContainerResources(
            cpu_period=self.cpu_period,
            cpu_quota=self.cpu_quota,
            cpu_shares=self.cpu_shares,
            memory_limit_in_bytes=self.memory_limit,
            oom_score_adj=self.oom_score_adj,
            cpuset_cpus=self.cpuset_cpus,
            cpuset_mems=self.cpuset_mems,
            unified=dict(self.unified),
        )


@dataclass(frozen=True)
class ContainerSpec:
    """A container in the network namespace of the host."""

    name: str
    image: str
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    attempt: int = 0
    log_path: str = ""
    """Relative to the pod's ``log_directory``; empty throws the output away."""

    def to_message(self) -> v1.ContainerConfig:
        host = v1.NamespaceOption(network=v1.NamespaceMode.NODE)
        return v1.ContainerConfig(
            metadata=v1.ContainerMetadata(name=self.name, attempt=self.attempt),
            # CRI-O refuses a container without user_specified_image.
            image=v1.ImageSpec(image=self.image, user_specified_image=self.image),
            command=list(self.command),
            args=list(self.args),
            envs=[v1.KeyValue(key=key, value=value.encode()) for key, value in self.env.items()],
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            log_path=self.log_path,
            linux=v1.LinuxContainerConfig(
                resources=self.resources.to_message(),
                security_context=v1.LinuxContainerSecurityContext(namespace_options=host),
            ),
        )
