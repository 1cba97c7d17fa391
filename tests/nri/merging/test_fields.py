# SPDX-License-Identifier: Apache-2.0
"""The field tables are complete: they have every field of the generated code."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import field_order
from nri_scope.nri.merging.fields import CPU, FIELDS, MEMORY, RDT


def names(message: Descriptor) -> set[str]:
    return {field.name for field in message.fields}


def names_of_steps(*steps: object) -> set[str]:
    """Return the fields of steps: their name, or the class name of single-field steps."""
    return {getattr(step, "name", type(step).__name__.lower()) for step in steps}


def test_every_field_that_can_be_owned_is_in_the_table() -> None:
    assert {field.number for field in FIELDS} - {0} == set(api.Field.values()) - {0}
    assert len({field.path for field in FIELDS}) == len(FIELDS) - 1, "two fields set the RDT class"


def test_every_member_of_the_groups_is_in_a_table() -> None:
    assert set(MEMORY) == names(api.LinuxMemory.DESCRIPTOR)
    assert set(CPU) == names(api.LinuxCPU.DESCRIPTOR)
    assert {*RDT, "remove"} == names(api.LinuxRdt.DESCRIPTOR)


def test_every_part_of_an_adjustment_is_merged() -> None:
    adjustment = names_of_steps(*field_order.FIRST, *field_order.LAST) | {"linux"}
    assert adjustment == names(api.ContainerAdjustment.DESCRIPTOR)
    linux = names_of_steps(field_order.DEVICES, *field_order.LINUX) | {"resources"}
    assert linux == names(api.LinuxContainerAdjustment.DESCRIPTOR)
    resources = names_of_steps(*field_order.ADJUSTED_RESOURCES)
    assert resources == names(api.LinuxResources.DESCRIPTOR)
    assert resources - names_of_steps(*field_order.UPDATED_RESOURCES) == {"pids", "devices"}
