# SPDX-License-Identifier: Apache-2.0
"""atheris target: memory use for small hostile inputs.

Most inputs are repeated bytes of a message, whose number of elements must be bounded; a few select
one of the hostile recordings of ``tests.bombs`` and the commands to measure with it. Run by ``make
fuzz``. Findings are more than 500 MiB, a traceback, or a message with more elements than allowed.
Usage: ``python -m tests.fuzz.fuzz_memory``.
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
from tests.nri.message_elements import KINDS, elements_of

_MAX_ELEMENTS = 40
_MEASURE_INTERVAL_K = 4
"""One input in so many thousand measures commands, which takes seconds."""
_MAX_FILE_BYTES = 10_000_000


def check_elements(data: bytes) -> None:
    """Check that a bounded message has a limited number of elements."""
    kind = KINDS[data[0] % len(KINDS)]
    kept = bounded(kind, data[2:] * (1 + data[1]), _MAX_ELEMENTS)
    try:
        message = kind.FromString(kept)
    except DecodeError:
        return
    assert elements_of(message) <= 2 * _MAX_ELEMENTS + 2


def check_commands(data: bytes) -> None:
    """Check status and memory of commands with a hostile recording."""
    names, commands = list(BOMBS), [*COMMANDS, TUI]
    bomb = names[int.from_bytes(data[:2], "big") % len(names)]
    chosen = [commands[octet % len(commands)] for octet in data[2:6]] or ["log"]
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder) / "r.nriscope.db", BOMBS[bomb], (1 + data[-1]) / 256)
        if path.stat().st_size > _MAX_FILE_BYTES:
            return
        found = measure(path, *chosen)
    assert found.status == 0, f"{bomb}: {found.stderr}"
    assert "Traceback" not in found.stderr, f"{bomb}: {found.stderr}"
    assert found.peak_mib <= PEAK_MIB, f"{bomb}: {found.peak_mib} MiB: {found.stderr}"


def one_input(data: bytes) -> None:
    """Select a check by the input and run it."""
    if len(data) < 3:
        return
    if sum(data) % (1_000 * _MEASURE_INTERVAL_K) == 7:
        check_commands(data)
    else:
        check_elements(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
