# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os

import pytest

from nri_scope.doctor.host import FILE_MAX, LISTING_MAX

from .machine import Machine


def test_links_stay_inside_the_root(machine: Machine) -> None:
    machine.write("/run/nri/nri.sock", "here")
    machine.link("/var/run", "/run")
    machine.link("/var/up", "../../../../run")
    assert machine.host.read("/var/run/nri/nri.sock") == b"here"
    assert machine.host.read("/var/up/nri/nri.sock") == b"here"
    assert machine.host.resolve("/var/run/nri/x") == machine.root / "run/nri/x"
    assert machine.host.resolve("/../../etc/./x") == machine.root / "etc/x"


def test_a_loop_of_links_is_an_error(machine: Machine) -> None:
    machine.link("/a", "b")
    machine.link("/b", "a")
    with pytest.raises(OSError, match="Too many levels"):
        machine.host.resolve("/a")
    assert not machine.host.exists("/a")


def test_only_regular_files_up_to_the_size_limit_are_read(machine: Machine) -> None:
    os.mkfifo(machine.at("/pipe"))
    with pytest.raises(OSError, match="not a regular file"):
        machine.host.read("/pipe")
    machine.at("/folder").mkdir()
    with pytest.raises(IsADirectoryError):
        machine.host.read("/folder")
    machine.write("/large", "x" * (FILE_MAX + 1))
    with pytest.raises(OSError) as caught:
        machine.host.read("/large")
    assert caught.value.errno == errno.EFBIG
    assert len(machine.host.read("/large", limit=FILE_MAX + 1)) == FILE_MAX + 1


def test_names_are_sorted_by_bytes_and_their_number_is_limited(machine: Machine) -> None:
    for name in ("b", "B", "a~", "a"):
        machine.write(f"/folder/{name}")
    assert machine.host.names("/folder") == ["B", "a", "a~", "b"]
    for number in range(LISTING_MAX):
        machine.write(f"/folder/{number}")
    assert len(machine.host.names("/folder")) == LISTING_MAX
