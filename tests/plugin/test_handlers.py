# SPDX-License-Identifier: Apache-2.0
"""Handlers found in an object, and errors for misspelt ones."""

from __future__ import annotations

import inspect

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event
from nri_scope.plugin import BasePlugin, Container, PodSandbox
from nri_scope.plugin.handlers import EVENT_HANDLERS, Handlers


def make_plugin(**methods: object) -> object:
    return type("Mine", (), methods)()


def test_base_class_defines_every_handler_without_handling_any() -> None:
    own = {name for name, _ in inspect.getmembers(BasePlugin, inspect.isfunction)}
    assert own == {"configure", "synchronize", "shutdown", "closed", *EVENT_HANDLERS.values()}
    with pytest.raises(UsageError, match="BasePlugin has no handlers; define methods such as"):
        Handlers.of(BasePlugin())

    class Derived(BasePlugin):
        def start_container(self, pod: PodSandbox, container: Container) -> None: ...

    assert Handlers.of(Derived()).events == {Event.StartContainer}


def test_handlers_may_be_any_callable_and_other_methods_are_ignored() -> None:
    plugin = make_plugin(
        create_container=staticmethod(lambda pod, container: None),
        start_container=lambda self, *arguments: None,
        update_containers=lambda self: None,
        remove_all=lambda self: None,
        closed=False,
        _configure=lambda self: None,
    )
    assert set(Handlers.of(plugin).by_name) == {"create_container", "start_container"}


@pytest.mark.parametrize("name", ["CreateContainer", "createContainer", "on_create_container"])
def test_misspelt_handler_names_the_correct_one(name: str) -> None:
    with pytest.raises(
        UsageError, match=f"Mine.{name} is not a handler; rename it to create_container"
    ):
        Handlers.of(make_plugin(**{name: lambda self, pod, container: None}))


def test_wrong_arguments_are_reported() -> None:
    with pytest.raises(
        UsageError, match=r"Mine.create_container\(container\) does not accept the arguments"
    ):
        Handlers.of(make_plugin(create_container=lambda self, container: None))
    with pytest.raises(UsageError, match=r"called as update_container\(pod, container, resources"):
        Handlers.of(make_plugin(update_container=lambda self, pod, container: None))


def test_class_or_object_without_handlers_is_rejected() -> None:
    with pytest.raises(
        UsageError, match=r"BasePlugin is a class; pass an instance.*BasePlugin\(\)"
    ):
        Handlers.of(BasePlugin)
    with pytest.raises(UsageError, match="object has no handlers"):
        Handlers.of(object())
