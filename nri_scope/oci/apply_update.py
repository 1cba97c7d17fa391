# SPDX-License-Identifier: Apache-2.0
"""Apply a container update to a spec, as runtimes do."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs.json_spec import Spec, copy_object, restore_if_unchanged

from .resources import update_by_oci_runtime, update_resources
from .runtime_rules import UpdatePath
from .unknown_fields import keep_unknown, unknown_fields


def update(
    spec: Spec,
    change: api.LinuxResources | api.ContainerUpdate,
    path: UpdatePath = UpdatePath.CRI,
) -> Spec:
    """Return `spec` with the resources of `change` applied, as a new spec that shares the rest.

    `path` is the path of the update in the runtime; `remarks` lists the settings lost there.
    Through the CRI, the swap limit follows the memory limit unless `spec` has only a memory limit,
    as on nodes that cannot limit swap. containerd appends huge page limits, the last of which is
    effective for its size; the result has only the effective limits. For an unknown path, only
    settings that all known paths apply are applied.
    """
    new = dict(spec)
    message = change.linux.resources if isinstance(change, api.ContainerUpdate) else change
    if path is UpdatePath.OCI_RUNTIME:
        update_by_oci_runtime(copy_object(new, "linux"), message)
    else:
        update_resources(
            copy_object(new, "linux"),
            message,
            sets_swap=path is not UpdatePath.UNKNOWN,
            of_cri=path is UpdatePath.CRI,
        )
    restore_if_unchanged(new, "linux", spec)
    keep_unknown(new, unknown_fields(change, "update"))
    return new
