# SPDX-License-Identifier: Apache-2.0
"""Names that Textual derives from class names: selectors of styles, and methods for messages."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump

import nri_scope.debugger
import nri_scope.tui

SELECTOR = re.compile(r"(?<![\w.#$-])[A-Z]\w+")


def modules() -> Iterator[Any]:
    for package in (nri_scope.tui, nri_scope.debugger):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def subclasses(base: type[Any]) -> set[type[Any]]:
    known: set[type[Any]] = {base}
    for one in base.__subclasses__():
        known |= subclasses(one)
    return known


OWN: list[type[Any]] = [
    var
    for module in modules()
    for var in vars(module).values()
    if inspect.isclass(var) and issubclass(var, MessagePump) and var.__module__ == module.__name__
]


def test_each_selector_is_a_class() -> None:
    names = {subclass.__name__ for subclass in subclasses(DOMNode)}
    checked = 0
    for one in OWN:
        css = one.__dict__.get("CSS" if issubclass(one, App) else "DEFAULT_CSS", "")
        for rule in re.findall(r"([^{}]+)\{", css):
            for selector in SELECTOR.findall(re.sub(r"/\*.*?\*/", "", rule, flags=re.DOTALL)):
                assert selector in names, (one, selector)
                checked += 1
    assert checked > 50


def test_each_method_for_a_message_has_the_name_of_one() -> None:
    names = {subclass.handler_name for subclass in subclasses(Message) - {Message}}
    checked = 0
    for one in OWN:
        for name, method in one.__dict__.items():
            # A callback is not named like this.
            if name.startswith("on_") and getattr(method, "__name__", "") == name:
                assert name in names, (one, name)
                checked += 1
    assert checked > 20
