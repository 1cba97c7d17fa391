# SPDX-License-Identifier: Apache-2.0
"""Replies that request no change, sent by nri-scope's plugins by default.

The three runtimes interpret replies as follows:

containerd and CRI-O (Go, ``pkg/adaptation``)
    A field that is not on the wire has its zero value, and every ``nil`` is checked: the empty
    message is a complete reply to all methods except two. An empty event mask in a Configure
    reply subscribes to *every* event, including validation. A reply to a part of Synchronize has to
    echo ``more`` and must not have updates; otherwise the connection is closed.
iSulad (Rust in front of C++, ``isula-rust-extensions``)
    ``CreateContainerResponse.adjust`` is unwrapped in an ``extern "C"`` function: if it is absent,
    the daemon aborts, and with it the manager of every container. An empty ``adjust`` is converted
    to null pointers and counts of 0, which are checked; the same holds for absent lists in other
    replies. An entry in ``update`` of a CreateContainer or StopContainer reply causes a SIGSEGV.

So no reply here has an update, and the reply to CreateContainer has an empty ``adjust``, which Go's
adaptation treats like an absent one.
"""

from __future__ import annotations

from types import MappingProxyType

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from nri_scope._gen.nri import api_pb2 as api

from .events import CONFIGURE, CREATE, METHODS, PLUGIN_SERVICE, SYNCHRONIZE

EMPTY_ADJUSTMENT = b"\x0a\x00"
"""A CreateContainerResponse with an empty ``adjust`` (field 1)."""

_NOT_EMPTY = {CREATE: EMPTY_ADJUSTMENT}

_DEPENDENT = {CONFIGURE, SYNCHRONIZE}
"""Methods whose replies depend on the request; see `negotiate` and `synchronized`."""


def _only_more() -> type[Message]:
    """Return a message type that decodes only ``more`` of a Synchronize request."""
    file = FileDescriptorProto(name="nri_scope/only_more.proto", syntax="proto3")
    number = api.SynchronizeRequest.DESCRIPTOR.fields_by_name["more"].number
    file.message_type.add(name="OnlyMore").field.add(
        name="more",
        number=number,
        type=FieldDescriptorProto.TYPE_BOOL,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("OnlyMore"))


# A request of 4 MiB can contain two million empty pods, which would take 470 MiB when decoded.
_ONLY_MORE = _only_more()

NO_CHANGE = MappingProxyType(
    {
        # StateChange, Shutdown: api.Empty. The nine events that StateChange carries, and
        # UpdatePodSandbox: messages without fields. UpdateContainer, StopContainer: no ``update``,
        # no ``evict``. ValidateContainerAdjustment: ``reject`` is false.
        name: _NOT_EMPTY.get(name, b"")
        for name, method in METHODS.items()
        if method.service == PLUGIN_SERVICE and name not in _DEPENDENT
    }
)
"""Encoded constant replies by method of the plugin service."""


def no_change(method: str, request: bytes, service: str = PLUGIN_SERVICE) -> bytes:
    """Return the encoded reply without a change to any request except Configure.

    The reply to unknown methods is empty: an error would fail the operation in Go runtimes and end
    the connection in iSulad.
    """
    if service == PLUGIN_SERVICE:
        if method == SYNCHRONIZE:
            return synchronized(request)
        return NO_CHANGE.get(method, b"")
    return b""


def synchronized(request: bytes) -> bytes:
    """Return the encoded reply to a part of Synchronize: ``more`` as in the request, no updates."""
    try:
        more: bool = getattr(_ONLY_MORE.FromString(request), "more")  # noqa: B009 - made above
    except DecodeError:
        return b""
    return api.SynchronizeResponse(more=more).SerializeToString()


def is_empty_reply(reply: Message) -> bool:
    """Return whether a reply has no content except possibly an empty adjustment."""
    size = reply.ByteSize()
    if isinstance(reply, api.CreateContainerResponse) and reply.HasField("adjust"):
        return size == len(EMPTY_ADJUSTMENT)
    return not size
