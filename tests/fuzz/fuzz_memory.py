# SPDX-License-Identifier: Apache-2.0
"""atheris target: what a small file could make large.

Most inputs are the bytes of a message, repeated, whose elements have to be bounded; a few choose
one of the hostile recordings of ``tests.bombs`` and the commands that are measured on it. Run by
``make fuzz``; more than 500 MiB, a traceback or a message with more elements than allowed is a
finding. Usage: ``python -m tests.fuzz.fuzz_memory``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["nri_scope.nri.element_limits"]):
    from nri_scope.nri.element_limits import bounded

from google.protobuf.message import DecodeError

from tests.bombs.commands import COMMANDS, PEAK_MIB, TUI, measure
from tests.bombs.recordings import BOMBS, make
from tests.nri.test_element_limits import KINDS, elements_of

_MOST = 40
_MEASURED = 4
"""One input of so many thousand is measured, which takes seconds."""
_SMALL = 10_000_000


def check_elements(data: bytes) -> None:
    """The law of messages."""
    kind = KINDS[data[0] % len(KINDS)]
    kept = bounded(kind, data[2:] * (1 + data[1]), _MOST)
    try:
        message = kind.FromString(kept)
    except DecodeError:
        return
    assert elements_of(message) <= 2 * _MOST + 2


def check_commands(data: bytes) -> None:
    """The law of commands."""
    names, commands = list(BOMBS), [*COMMANDS, TUI]
    bomb = names[int.from_bytes(data[:2], "big") % len(names)]
    chosen = [commands[octet % len(commands)] for octet in data[2:6]] or ["log"]
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder) / "r.nriscope.db", BOMBS[bomb], (1 + data[-1]) / 256)
        if path.stat().st_size > _SMALL:
            return
        found = measure(path, *chosen)
    assert found.status == 0, f"{bomb}: {found.said}"
    assert "Traceback" not in found.said, f"{bomb}: {found.said}"
    assert found.peak_mib <= PEAK_MIB, f"{bomb}: {found.peak_mib} MiB: {found.said}"


def one_input(data: bytes) -> None:
    """Bytes that choose what is tried."""
    if len(data) < 3:
        return
    if sum(data) % (1_000 * _MEASURED) == 7:
        check_commands(data)
    else:
        check_elements(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
