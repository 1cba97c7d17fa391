# SPDX-License-Identifier: Apache-2.0
"""A container update applied to a spec, as containerd and CRI-O apply it."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api

from .resources import update_resources
from .spec import Spec, section, settle
from .unknown import keep_unknown, unknown_fields


def update(spec: Spec, change: api.LinuxResources | api.ContainerUpdate) -> Spec:
    """A new spec: `spec` with the resources of `change` applied; the rest is shared.

    Only what the CRI's LinuxContainerResources has reaches a container (`remarks` lists what gets
    lost). The swap limit follows the memory limit, unless `spec` has a memory limit alone, as on
    nodes that cannot limit swap. containerd appends huge page limits, and the last one of a size
    counts; here the one that counts is shown.
    """
    new = dict(spec)
    message = change.linux.resources if isinstance(change, api.ContainerUpdate) else change
    update_resources(section(new, "linux"), message)
    settle(new, "linux", spec)
    keep_unknown(new, unknown_fields(change, "update"))
    return new
