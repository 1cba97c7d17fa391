# SPDX-License-Identifier: Apache-2.0
"""Replying to a Synchronize does not decode its pods and containers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.no_change import synchronized

_PEAK = """
from pathlib import Path
from nri_scope.nri.no_change import synchronized
assert synchronized(b"\\x12\\x00" * (2 << 20) + b"\\x18\\x01") == b"\\x10\\x01"
# getrusage's maximum also counts the parent's memory, from before exec.
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
print(int(peak[0]) // 1024)
"""


def test_two_million_empty_containers_take_little_memory() -> None:
    found = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, check=True)
    assert int(found.stdout) < 150


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("pods", [0, 3])
def test_more_is_echoed(pods: int, more: bool) -> None:
    pod_messages = [api.PodSandbox(id=f"p{number}") for number in range(pods)]
    request = api.SynchronizeRequest(pods=pod_messages, more=more).SerializeToString()
    assert api.SynchronizeResponse.FromString(synchronized(request)).more is more
    # Fields may come in any order.
    reordered = api.SynchronizeRequest(more=more).SerializeToString() + request
    assert api.SynchronizeResponse.FromString(synchronized(reordered)).more is more
