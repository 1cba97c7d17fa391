# SPDX-License-Identifier: Apache-2.0
"""Facts about a node that decide what its plugins get, and values that a cluster assigns.

No manifest states them. Assigned names, ids and hashes are random in a cluster; here they are
hashes of the names that they belong to, the same ones for the same manifest.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from nri_scope.nri.plain import Plain

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


_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "nri-scope")
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of names made by Kubernetes: no vowels, no digits like letters (util/rand)."""


def uid_of(*parts: str) -> str:
    """Return a UUID."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(parts)))


def suffix_of(length: int, *parts: str) -> str:
    """Return ``length`` characters as they end the names of generated pods."""
    digest = hashlib.sha256("/".join(parts).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])


def number_of(low: int, high: int, *parts: str) -> int:
    """Return a number from ``low`` to ``high``."""
    digest = hashlib.sha256("/".join(parts).encode()).digest()
    return low + int.from_bytes(digest[:8], "big") % (high - low + 1)


def container_hash(name: str, image: str) -> str:
    """Return the hash with which the kubelet notices a changed container.

    It is the 32-bit FNV-1a hash of a dump of the JSON with both ("HashContainer" in
    pkg/kubelet/container, "DeepHashObject" in pkg/util/hash).
    """
    dumped = f"([]uint8)[{' '.join(map(str, go_json({'image': image, 'name': name}).encode()))}]"
    return f"{fnv1a(dumped.encode()):x}"


def fnv1a(data: Iterable[int]) -> int:
    """Return the 32-bit FNV-1a hash."""
    result = 0x811C9DC5
    for byte in data:
        result = (result ^ byte) * 0x01000193 & 0xFFFFFFFF
    return result


def go_json(value: Mapping[str, Plain] | list[dict[str, Plain]]) -> str:
    """Return JSON as Go writes it: without spaces, with ``<``, ``>`` and ``&`` escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
