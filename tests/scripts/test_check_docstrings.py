# SPDX-License-Identifier: Apache-2.0
"""Tests of the check of names in docstrings: it finds names that do not exist, and no others."""

import pytest

from scripts.check_docstrings import Names, findings

PACKAGE = """
class Base:
    limit: int

class Clock(Base):
    def __init__(self, start):
        self.time = start

def measure(): ...
"""


def _missing(source: str) -> list[tuple[int, str]]:
    package = Names()
    package.add("clocks", PACKAGE)
    package.add("here", source)
    return list(findings(source, package))


def _function(docstring: str) -> str:
    return f'''
import os

LIMIT = 1

def wait(seconds, **options):
    """{docstring}"""
    until = os.times().elapsed
    return print("state=ended", sep="")
'''


@pytest.mark.parametrize(
    "name",
    [
        *("``gone``", "`gone`", "``Clock.gone``", "`Clock.gone`", "`clocks.gone`"),
        # The name of another module is not a name of this one.
        "``measure``",
        # What another class or module has.
        *("`measure.limit`", "`Gone.limit`"),
    ],
)
def test_finds_a_missing_name(name: str) -> None:
    assert _missing(_function(f"Wait for {name}.")) == [(6, name.strip("`"))]


@pytest.mark.parametrize(
    "name",
    [
        # A parameter, a name, an attribute, a keyword, a word of a string.
        *("``seconds``", "``options``", "``until``", "``elapsed``", "``sep``", "``state``"),
        # A name of the module, of Python.
        *("``LIMIT``", "``os``", "``wait``", "``None``", "`LIMIT`"),
        # A name of the package.
        *("`Clock`", "`measure`", "`clocks`", "`clocks.measure`", "`os.path`"),
        *(
            "`Clock.time`",
            "``Clock.time``",
            "`clocks.Clock.time`",
            "`Clock.limit`",
            "`Clock.start`",
        ),
        # Not a name.
        *("``net.core.somaxconn``", "``a b``", '"gone"', "``--gone``", "`gone TIME`"),
    ],
)
def test_accepts_a_name_that_exists(name: str) -> None:
    assert _missing(_function(f"Wait for {name}.")) == []


def test_a_word_of_the_docstring_itself_does_not_count() -> None:
    assert _missing(_function("Wait for gone: ``gone``.")) == [(6, "gone")]


def test_docstrings_of_attributes_classes_and_modules_name_what_exists() -> None:
    source = '''"""See `Watch`, `gone_1`."""

LIMIT = 1
"""Limit of `Watch`, `gone_2`, ``value``."""

class Watch(Clock):
    """A `Clock`, `gone_3`."""

    name: str
    """See `limit`, `gone_4`."""

    def __init__(self):
        self.late = 0
        """See `measure`, `gone_5`."""
'''
    assert _missing(source) == [
        *((1, "gone_1"), (4, "gone_2"), (7, "gone_3"), (10, "gone_4"), (14, "gone_5"))
    ]


def test_a_method_may_name_what_its_class_and_base_classes_have() -> None:
    source = '''
class Watch(Clock):
    name: str

    def __init__(self, late):
        pass

    @property
    def early(self): ...

    def stop(self):
        """Set ``name``, ``late``, ``early``, ``time``, ``limit``, ``other``."""

    def begin(self, other): ...
'''
    assert _missing(source) == [(11, "other")]


def test_an_inner_function_may_name_what_the_outer_one_has() -> None:
    source = '''
def outer(seconds):
    if seconds:
        def inner():
            """Wait ``seconds``, then ``gone``."""
'''
    assert _missing(source) == [(4, "gone")]
