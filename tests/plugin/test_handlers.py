# SPDX-License-Identifier: Apache-2.0
"""Handlers found in an object."""

from __future__ import annotations

import pytest

from nri_scope.errors import UsageError
from nri_scope.plugin.serving import handlers_of


def make_plugin(**methods: object) -> object:
    return type("Mine", (), methods)()


def test_handlers_may_be_any_callable_and_other_methods_are_ignored() -> None:
    plugin = make_plugin(
        create_container=staticmethod(lambda pod, container: None),
        start_container=lambda self, *arguments: None,
        update_containers=lambda self: None,
        remove_all=lambda self: None,
        closed=False,
        _configure=lambda self: None,
    )
    assert set(handlers_of(plugin)) == {"create_container", "start_container"}


def test_properties_of_other_names_are_not_read() -> None:
    def fail(self: object) -> None:
        raise AssertionError

    plugin = make_plugin(
        containers=property(fail), start_container=lambda self, pod, container: None
    )
    assert set(handlers_of(plugin)) == {"start_container"}


def test_class_or_object_without_handlers_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"Mine is a class; pass an instance.*Mine\(\)"):
        handlers_of(type(make_plugin()))
    with pytest.raises(UsageError, match="object has no handlers; define methods such as"):
        handlers_of(object())
