# SPDX-License-Identifier: Apache-2.0
"""Tests that replay pods requesting allowed and disallowed devices."""

from __future__ import annotations

import pytest
from nri_scope.pytest_plugin import NriReplay

from device_injector import DeviceInjector

pytestmark = pytest.mark.nri_recording("pods.yaml")


def test_a_container_gets_its_requested_devices(nri_replay: NriReplay) -> None:
    ffmpeg = nri_replay(DeviceInjector()).container("media/encoder/ffmpeg")
    added = [change.path for change in ffmpeg.changes if change.path.startswith("/linux/devices/")]
    assert added == ["/linux/devices/~1dev~1fuse", "/linux/devices/~1dev~1net~1tun"]


def test_other_containers_get_no_devices(nri_replay: NriReplay) -> None:
    result = nri_replay(DeviceInjector())
    for name in ("media/encoder/sidecar", "data/cache/cache", "shop/web/app"):
        assert not result.container(name).changes


def test_a_disallowed_device_fails_the_container(nri_replay: NriReplay) -> None:
    result = nri_replay(DeviceInjector())
    (failed,) = [reply for reply in result.replies if reply.problem]
    assert failed.subject == "data/greedy/app"
    assert "device 'nuke' is not allowed; allowed are fuse, tun" in failed.problem
