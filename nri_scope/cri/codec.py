# SPDX-License-Identifier: Apache-2.0
"""gRPC codec for betterproto2, with one type of error for malformed messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpclib.encoding.proto import ProtoCodec

from nri_scope.errors import RemoteProtocolError

if TYPE_CHECKING:
    from grpclib._typing import IProtoMessage


class MessageCodec(ProtoCodec):
    """gRPC's ``proto`` codec."""

    def decode(self, data: bytes, message_type: type[IProtoMessage]) -> IProtoMessage:
        """Decode a message. Raises RemoteProtocolError if ``data`` is malformed."""
        try:
            return super().decode(data, message_type)
        # Malformed bytes make betterproto2 raise almost any exception, such as AttributeError.
        except Exception as error:
            name = message_type.__name__
            raise RemoteProtocolError(f"{name} cannot be decoded: {error!r}") from error
