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


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("CreateContainer", "create_container"),
        ("createContainer", "create_container"),
        ("on_create_container", "create_container"),
        ("on_create", "create_container"),
        ("create_contanier", "create_container"),
        ("craete_container", "create_container"),
        ("stop_contaner", "stop_container"),
        ("create_containers", "create_container"),
        ("OnPostStart", "post_start_container"),
        ("on_stop", "stop_container"),
        ("run_pod", "run_pod_sandbox"),
        ("RunPod", "run_pod_sandbox"),
        ("stop_podsandbox", "stop_pod_sandbox"),
        ("on_close", "closed"),
        ("synchronise", "synchronize"),
        ("Configure", "configure"),
        ("validate_container_adjustement", "validate_container_adjustment"),
    ],
)
def test_misspelt_handler_names_the_correct_one(name: str, handler: str) -> None:
    arguments = ", ".join(inspect.signature(getattr(BasePlugin, handler)).parameters)
    namespace: dict[str, object] = {}
    exec(f"def method({arguments}): ...", namespace)
    with pytest.raises(
        UsageError,
        match=f"Mine.{name} is not a handler; rename it to {handler}; if it is not .*_{name}$",
    ):
        # The error is raised whatever other handlers there are.
        Handlers.of(
            make_plugin(
                **{name: namespace["method"]}, remove_container=lambda self, pod, container: None
            )
        )


def test_misspelt_name_is_found_with_wrong_arguments_too() -> None:
    with pytest.raises(UsageError, match="rename it to create_container"):
        Handlers.of(make_plugin(create_contanier=lambda self: None))


@pytest.mark.parametrize(
    "helper",
    [
        # Something is added to a handler's name or left out, and the arguments are others.
        *("update_containers", "restart_container", "configured", "close", "stop_containers"),
        *("create", "start", "create_adjustment", "container_created", "apply", "main", "cool"),
        *("containers", "pods", "adjust", "validate", "_CreateContainer"),
    ],
)
def test_helpers_are_allowed(helper: str) -> None:
    plugin = make_plugin(
        **{helper: lambda self: None}, start_container=lambda self, pod, container: None
    )
    assert set(Handlers.of(plugin).by_name) == {"start_container"}


def test_helper_beside_the_handler_of_a_similar_name_is_allowed() -> None:
    def method(self: object, pod: object, container: object) -> None: ...

    plugin = make_plugin(
        start_container=method, restart_container=method, StartContainer=method, on_start=method
    )
    assert set(Handlers.of(plugin).by_name) == {"start_container"}


def test_properties_of_other_names_are_not_read() -> None:
    def fail(self: object) -> None:
        raise AssertionError

    plugin = make_plugin(
        containers=property(fail), start_container=lambda self, pod, container: None
    )
    assert set(Handlers.of(plugin).by_name) == {"start_container"}


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
