# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.testbed.packages import TestbedError, check_machine


def test_a_machine_without_the_packages_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for tool in ("apt-get", "dpkg", "umount"):
        (tmp_path / tool).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError) as caught:
        check_machine()
    assert str(caught.value) == (
        "the runtime testbed needs busybox-static, runc; apt-get install busybox-static runc"
    )


def test_somebody_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="needs root"):
        check_machine()
