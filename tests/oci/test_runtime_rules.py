# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import UpdatePath, remarks, runtime_rules_of, shows_start


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("containerd", UpdatePath.CRI, UpdatePath.CRI),
        ("cri-o", UpdatePath.CRI_O, UpdatePath.OCI_RUNTIME),
        ("CRI-O", UpdatePath.CRI_O, UpdatePath.OCI_RUNTIME),
        ("v2", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
        ("another", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
        ("", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
    ],
)
def test_update_paths_by_runtime(name: str, own: UpdatePath, other: UpdatePath) -> None:
    rules = runtime_rules_of(name)
    assert (rules.own_updates, rules.other_updates) == (own, other)
    assert rules.ignores_evictions == (own is not UpdatePath.UNKNOWN or name == "v2")


@pytest.mark.parametrize(
    ("event", "runtime", "expected"),
    [
        ("StartContainer", "containerd", True),
        ("StartContainer", "cri-o", True),
        ("StartContainer", "v2", False),
        ("PostStartContainer", "v2", True),
        ("PostStartContainer", "containerd", True),
        ("CreateContainer", "containerd", False),
    ],
)
def test_isulads_start_container_shows_no_started_container(
    event: str, runtime: str, expected: bool
) -> None:
    assert shows_start(event, runtime) is expected


@pytest.mark.parametrize(
    ("version", "drops"),
    [
        ("1.7.25", False),
        ("1.7.26", True),
        ("1.7.29+unknown", True),
        ("1.7.30", False),
        ("2.0.0", True),
        ("2.0.5-k3s1", True),
        ("2.1.9", False),
        ("", False),
    ],
)
def test_some_versions_of_containerd_drop_cdi_devices(version: str, drops: bool) -> None:
    assert bool(runtime_rules_of("containerd", version).drops_cdi_devices) == drops
    assert not runtime_rules_of("cri-o", version).drops_cdi_devices
    change = api.ContainerAdjustment()
    change.CDI_devices.add(name="vendor.com/gpu=0")
    (one,) = remarks(change, rules=runtime_rules_of("containerd", version))
    assert one.kind == ("dropped" if drops else "unresolved")
