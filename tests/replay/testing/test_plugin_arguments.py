# SPDX-License-Identifier: Apache-2.0
"""Plugins as arguments of replays, and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.plugins import InProcess
from nri_scope.replay.testing import plugin_set_of


class Handling:
    def create_container(self, pod: object, container: object) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Plugin", "plugin"),
        ("MyPlugin", "my"),
        ("DeviceInjector", "device-injector"),
        ("CDIDevices", "cdi-devices"),
        ("Utf8Names2Go", "utf8-names2-go"),
        ("_Private_thing", "private-thing"),
        ("lower", "lower"),
    ],
)
def test_object_is_named_after_its_class(kind: str, name: str) -> None:
    plugin = type(kind, (Handling,), {})()
    (cast,) = plugin_set_of(plugin).plugins
    assert isinstance(cast, InProcess)
    assert cast.id == f"10-{name}"
    assert cast.handlers is plugin


@pytest.mark.parametrize(
    "plugin",
    ["bin/05-mine -v 'a b'", ["bin/05-mine", "-v", "a b"], (Path("bin/05-mine"), "-v", "a b")],
)
def test_command_is_named_after_its_file(plugin: object) -> None:
    plugin_set = plugin_set_of(plugin, config="text", find=lambda file: f"/found/{file}")
    assert plugin_set.plugins == (PluginCommand("05", "mine", ("/found/bin/05-mine", "-v", "a b")),)
    assert plugin_set.config("05") == "text"


def test_program_without_a_folder_is_searched_in_path() -> None:
    (cast,) = plugin_set_of("mine", find=lambda file: f"/found/{file}").plugins
    assert isinstance(cast, PluginCommand) and cast.argv == ("mine",)
