# SPDX-License-Identifier: Apache-2.0
"""Messages with many elements, and the number of elements of a message."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope._gen.nri import api_pb2 as api

KINDS = (
    api.Container,
    api.PodSandbox,
    api.CreateContainerResponse,
    api.SynchronizeRequest,
    api.ValidateContainerAdjustmentRequest,
)


def elements_of(message: Message) -> int:
    """Return the number of elements of a decoded message."""
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value: Any = field.message_type.fields_by_name["value"]
            if of_value.message_type is not None:
                count += sum(elements_of(value[key]) for key in value)
            count += len(value)
        elif isinstance(value, Message):
            count += 1 + elements_of(value)
        elif isinstance(value, str | bytes | int | float):
            count += 1
        elif field.message_type is not None:
            count += sum(1 + elements_of(item) for item in value)
        else:
            count += len(value)
    return count
