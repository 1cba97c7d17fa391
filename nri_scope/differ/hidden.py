# SPDX-License-Identifier: Apache-2.0
"""What a plugin adjusts and no later plugin of the chain is shown, so that no snapshot has it."""

from __future__ import annotations

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Spec

PATHS = ("/cdiDevices", "/linux/intelRdt", "/linux/memoryPolicy")
"""Where it is in a spec."""


class Hidden:
    """Collects it, to be put on top of snapshots."""

    def __init__(self) -> None:
        self._adjustments: list[api.ContainerAdjustment] = []

    def take(self, adjustment: api.ContainerAdjustment) -> None:
        """The next plugin's."""
        hidden = api.ContainerAdjustment(CDI_devices=adjustment.CDI_devices)
        if adjustment.linux.rdt.ByteSize():
            hidden.linux.rdt.CopyFrom(adjustment.linux.rdt)
        if adjustment.linux.HasField("memory_policy"):
            hidden.linux.memory_policy.CopyFrom(adjustment.linux.memory_policy)
        if hidden.ByteSize():
            self._adjustments.append(hidden)

    def put_on(self, spec: Spec) -> Spec:
        """The spec with all of it."""
        for adjustment in self._adjustments:
            spec = oci.adjust(spec, adjustment)
        return spec
