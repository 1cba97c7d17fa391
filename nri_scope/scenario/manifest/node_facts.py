# SPDX-License-Identifier: Apache-2.0
"""Facts about a node that decide what its plugins get, but that no manifest states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

RESERVED_MEMORY = 100 << 20
"""Bytes that the kubelet keeps free by default (``memory.available`` of its hard eviction)."""
MEMORY_OPTION = "`scenario from-pod --node-memory` sets it"
"""End of the notes that say that the memory is assumed."""

CgroupDriver = Literal["cgroupfs", "systemd"]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node with Kubernetes 1.34 and default settings of the kubelet and the runtime."""

    name: str = "node1"
    ip: str = "192.168.0.11"
    cgroup_driver: CgroupDriver = "systemd"
    cgroup_version: Literal[1, 2] = 2
    cgroup_root: tuple[str, ...] = ()
    """Names of the cgroups around that of all pods (``cgroupRoot`` of the kubelet)."""
    memory: int = 16 << 30
    """Bytes of memory; the OOM score of a burstable pod depends on it."""
    is_memory_known: bool = False
    """Whether ``memory`` is that of a real node; otherwise, notes say that it is assumed."""
    allocatable_memory: int = (16 << 30) - RESERVED_MEMORY
    """Bytes for pods; the limit that the downward API shows for containers without one."""
    cpus: int = 4
    huge_page_sizes: tuple[str, ...] = ("2MB", "1GB")
    """In the order in which the kernel lists them in /sys/kernel/mm/hugepages."""
    limits_huge_pages: bool | None = None
    """Whether the runtime limits huge pages; None for its default, which is no for containerd
    (``disable_hugetlb_controller``)."""
    has_swap_accounting: bool = True
    """Whether the memory controller limits swap."""
    kubelet_folder: str = "/var/lib/kubelet"
    log_folder: str = "/var/log/pods"
    service_ip: str = "10.96.0.1"
    """Address of the service ``kubernetes``."""
    pause_image: str = ""
    """Image of the sandbox; "" for the runtime's default."""
    links: dict[str, str] = field(
        default_factory=lambda: {"/var/run": "/run", "/var/lock": "/run/lock"}
    )
    """Symbolic links on the node, which runtimes resolve if they are the source of a mount."""

    @property
    def memory_words(self) -> str:
        """Words for notes: the memory that is assumed, and how to set it."""
        return f"a node with {self.memory >> 30} GiB of memory is assumed; {MEMORY_OPTION}"
