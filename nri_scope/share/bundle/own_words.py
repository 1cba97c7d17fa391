# SPDX-License-Identifier: Apache-2.0
"""What we say ourselves in whatever we write: no leak where a secret is such a word."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from nri_scope._gen.nri import api_pb2

_TEXT = (".py", ".j2", ".css")


FORMATS = ("nri_scope.recorder", "nri_scope.share.formats", "nri_scope.nri")
"""The packages that say something in formats for other programs."""


@cache
def words_of(*packages: str) -> bytes:
    """All that stands in the sources of these packages, where their files are there to be read,
    and the names of the API's fields.
    """
    texts = [name.encode() for name in _names()]
    for package in packages:
        folder = files(package)
        for one in (folder, folder / "templates"):
            if one.is_dir():
                found = sorted(one.iterdir(), key=lambda file: file.name)
                texts += [file.read_bytes() for file in found if file.name.endswith(_TEXT)]
    return b"\n".join(texts)


def _names() -> Iterator[str]:
    for message in api_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            yield field.name
            yield field.json_name
    for enum in api_pb2.DESCRIPTOR.enum_types_by_name.values():
        yield from enum.values_by_name
