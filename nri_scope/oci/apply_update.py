# SPDX-License-Identifier: Apache-2.0
"""A container update applied to a spec, as runtimes apply it."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api

from .resources import update_by_oci_runtime, update_resources
from .runtime_rules import UpdatePath
from .spec import Spec, section, settle
from .unknown_fields import keep_unknown, unknown_fields


def update(
    spec: Spec,
    change: api.LinuxResources | api.ContainerUpdate,
    path: UpdatePath = UpdatePath.CRI,
) -> Spec:
    """Return a new spec: `spec` with the resources of `change` applied; the rest is shared.

    `path` is the path that the update takes; `remarks` lists what gets lost on it. Through the CRI,
    the swap limit follows the memory limit, unless `spec` has only a memory limit, as on nodes that
    cannot limit swap. containerd appends huge page limits, and the last one of a size counts; here
    only that one is shown. An unknown path does only what all known paths do.
    """
    new = dict(spec)
    message = change.linux.resources if isinstance(change, api.ContainerUpdate) else change
    if path is UpdatePath.OCI_RUNTIME:
        update_by_oci_runtime(section(new, "linux"), message)
    else:
        update_resources(
            section(new, "linux"),
            message,
            sets_swap=path is not UpdatePath.UNKNOWN,
            of_cri=path is UpdatePath.CRI,
        )
    settle(new, "linux", spec)
    keep_unknown(new, unknown_fields(change, "update"))
    return new
