# SPDX-License-Identifier: Apache-2.0
"""atheris target: secrets planted in generated messages, in all encodings and outputs.

Most inputs select a key, a syntax, a place and a value, and plant the value again in another
encoding in a second place; a few export a recording full of secrets in every format with
``--redact``. Run by ``make fuzz``. Six consecutive characters of a value in the output are a
finding. Usage: ``python -m tests.fuzz.fuzz_redaction``.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import atheris

with atheris.instrument_imports(include=["nri_scope.share.redaction"]):
    from nri_scope.share.redaction import Redactor, Rules

from nri_scope._gen.nri import api_pb2 as api
from tests.cli.planted_secrets import plant_secrets, redacted_texts
from tests.share.redaction.credential_texts import (
    KEY,
    KEYS,
    PLACES,
    SYNTAXES,
    left_of,
    spellings,
    unpacked,
)

T = TypeVar("T")
_LETTERS = "abcdefghkmnpqrstuvwxyzABCDEFGHKMNPQRSTUVWXYZ23456789"
_SIGNS = "'\"$ :é世;,|<>()[]{}=@!%*+-_~^?/\\"
_EXPORT_INTERVAL = 2_000
"""One input in so many is exported in every format, which takes a second."""
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.urlsafe_b64encode(f"a: {text}".encode()).decode(),
    lambda text: text.encode().hex(),
    lambda text: urllib.parse.quote(text, safe=""),
    urllib.parse.quote_plus,
)


def _value(data: atheris.FuzzedDataProvider, signs: str) -> str:
    alphabet = _LETTERS + signs
    middle = "".join(
        alphabet[data.ConsumeIntInRange(0, len(alphabet) - 1)]
        for _ in range(data.ConsumeIntInRange(8, 24))
    )
    return f"Zq7{' '.join(middle.split())}8kX"


def _one(data: atheris.FuzzedDataProvider, choices: Sequence[T]) -> T:
    return choices[data.ConsumeIntInRange(0, len(choices) - 1)]


def check_message(data: atheris.FuzzedDataProvider) -> None:
    """Check that redaction removes a planted value from a message."""
    name = _one(data, sorted(SYNTAXES))
    key = _one(data, sorted(KEYS))
    # Most punctuation ends an unquoted value.
    value = _value(data, "$:!%*+_~?" if name == "assigned" else _SIGNS)
    request = api.CreateContainerRequest(container=api.Container(id="c1", name="app"))
    _one(data, PLACES)(request, SYNTAXES[name][0](key, value))
    request.container.annotations["again"] = _one(data, _SPELLINGS)(value)
    content = request.SerializeToString()
    redactor = Redactor(Rules.DEFAULT, KEY)
    shown = unpacked(
        api.CreateContainerRequest.FromString(redactor.request("CreateContainer", content))
    )
    found = [*spellings(shown), *_decoded(shown)]
    assert left_of(value, *found) == [], f"{name}: {key}: {value!r}: {shown!r}"


def _decoded(shown: str) -> list[str]:
    """The words of a text, decoded from base64 and hexadecimal."""
    texts = []
    for word in shown.split():
        for decode in base64.b64decode, base64.urlsafe_b64decode, bytes.fromhex:
            try:
                texts.append(decode(word).decode("utf-8", "replace"))
            except ValueError:
                pass
    return texts


def check_outputs(seed: int) -> None:
    """Check that no command's output contains a planted secret."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
    ):
        path = Path(folder) / "r.nriscope.db"
        secrets = plant_secrets(path, seed)
        everything = spellings("\n".join(redacted_texts(path, Path(folder))))
    assert [secret for secret in secrets if left_of(secret, *everything)] == []


def one_input(content: bytes) -> None:
    """Select a check by the input and run it."""
    if sum(content) % _EXPORT_INTERVAL == 7:
        check_outputs(int.from_bytes(content[:4], "big"))
    else:
        check_message(atheris.FuzzedDataProvider(content))


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
