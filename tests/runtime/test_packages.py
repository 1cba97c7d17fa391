# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.testbed.packages import TestbedError, check_machine


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for tool in ("apt-get", "dpkg", "umount"):
        (tmp_path / tool).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError) as caught:
        check_machine()
    assert str(caught.value) == (
        "the runtime testbed needs busybox-static, runc; apt-get install busybox-static runc"
    )


def test_a_user_other_than_root_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="needs root"):
        check_machine()
