# SPDX-License-Identifier: Apache-2.0
"""Crashes in output: the message, and the innermost frame in the plugin's own code."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.runtime.output import (
    CAUGHT_MAX_NS,
    CRASH_LINES_MAX,
    LATER_LINES_MAX,
    Crash,
    CrashOutput,
)

LIBRARY = """github.com/containerd/nri/pkg/stub.(*stub).CreateContainer(0xc000, {0x1, 0x2})
	/root/go/pkg/mod/github.com/containerd/nri@v0.12.0/pkg/stub/stub.go:700 +0x1b
github.com/containerd/ttrpc.(*serviceSet).unaryCall(0xc000)
	/src/ttrpc/services.go:75 +0xe3
created by github.com/containerd/ttrpc.(*serverConn).run in goroutine 9
	/src/ttrpc/server.go:431 +0x5e5
"""


SYNTAX_ERROR = """\
  File "/opt/plugin.py", line 3
    def create(
              ^
SyntaxError: '(' was never closed
"""


def go_panic(message: str, place: str, *, above: str = "", goroutine: int = 21) -> str:
    function, _, line = place.partition(" ")
    own = f"main.(*plugin).{function}(0xc000123, {{0x7f, 0x3}})\n\t/home/me/main.go:{line} +0x25\n"
    return f"panic: {message}\n\ngoroutine {goroutine} [running]:\n{above}{own}{LIBRARY}"


def python_traceback(message: str, place: str) -> str:
    function, _, line = place.partition(" ")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/opt/plugin.py", line {line}, in {function}\n'
        "    broken()\n    ~~~~~~^^\n"
        '  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode\n'
        f"    raise\n{message}\n"
    )


def exception_group(message: str, place: str) -> str:
    lines = python_traceback(message, place).splitlines()
    lines[0] = f"Exception Group {lines[0]}"
    inner = "".join(f"    | {line}\n" for line in python_traceback(message, place).splitlines())
    outer = "".join(f"  | {line}\n" for line in lines[:-1])
    return f"  + {outer[4:]}  | ExceptionGroup: 1\n  +-+---- 1 ----\n{inner}    +-----\n"


def python_fatal_error(message: str, place: str) -> str:
    function, _, line = place.partition(" ")
    return (
        f"Fatal Python error: {message}\n\nCurrent thread 0x0000712 (most recent call first):\n"
        f'  File "/usr/lib/python3.11/ctypes/__init__.py", line 517 in string_at\n'
        f'  File "/opt/plugin.py", line {line} in {function}\n'
        '  File "/opt/plugin.py", line 99 in <module>\n'
    )


def rust_panic(message: str, place: str) -> str:
    _, _, line = place.partition(" ")
    return f"thread 'main' (771) panicked at src/main.rs:{line}:9:\n{message}\nnote: run with\n"


def old_rust_panic(message: str, place: str) -> str:
    _, _, line = place.partition(" ")
    return f"thread 'main' panicked at '{message}', src/main.rs:{line}:9\nnote: run with\n"


def rust_panic_in_library(message: str, place: str) -> str:
    _, _, line = place.partition(" ")
    return (
        f"thread 'main' panicked at /rustc/abc/library/core/src/option.rs:2015:5:\n{message}\n"
        "stack backtrace:\n   0: rust_begin_unwind\n"
        "             at /rustc/abc/library/std/src/panicking.rs:665:5\n"
        f"   3: plugin::create\n             at ./src/create.rs:{line}:17\n"
    )


NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+")


def crash_in(*texts: str) -> Crash | None:
    output = CrashOutput()
    for text in texts:
        for number, line in enumerate(text.splitlines()):
            output.add(line, number)
    return output.crash()


def crash_of(*texts: str) -> str:
    return str(crash_in(*texts) or "")


def signature_of(*texts: str) -> str:
    """Return message and place, without the numbers of the message, which vary."""
    crash = crash_in(*texts)
    return f"{NUMBERS.sub('#', crash.message)} at {crash.location}" if crash else " at "


@pytest.mark.parametrize(
    "crash",
    [
        go_panic,
        python_traceback,
        exception_group,
        python_fatal_error,
        rust_panic,
        old_rust_panic,
        rust_panic_in_library,
    ],
    ids=lambda crash: crash.__name__,
)
def test_signature_depends_on_message_and_place(crash: Callable[[str, str], str]) -> None:
    first = signature_of(crash("ValueError: no cpu 3", "create 33"))
    assert first
    assert first == signature_of("starting\n", crash("ValueError: no cpu 4711", "create 33"))
    assert first != signature_of(crash("KeyError: no cpu 3", "create 33"))
    assert first != signature_of(crash("ValueError: no cpu 3", "create 34"))


def test_go_signature_has_function_and_line_but_no_addresses() -> None:
    first = signature_of(go_panic("boom", "CreateContainer 33"))
    assert first == signature_of(
        go_panic("boom", "CreateContainer 33", goroutine=77).replace("0xc000", "0xc999")
    )
    assert first != signature_of(go_panic("boom", "StopContainer 33"))


@pytest.mark.parametrize(
    "above",
    [
        "panic({0x4aa540?, 0x4d0558?})\n\t/usr/local/go/src/runtime/panic.go:860 +0x13a\n",
        "strings.Repeat({0x4c5750?}, 0x41?)\n\t/usr/local/go/src/strings/strings.go:628 +0x56f\n",
        "encoding/json.x({0x4c5750?}, 0x41?)\n\tencoding/json/x.go:628 +0x56f\n",
        "internal/runtime/maps.fatal({0x4})\n\t/usr/lib/go-1.19/src/internal/runtime/maps/x.go:1\n",
        "internal/sync.fatal({0x6a9e7a?})\n\t/usr/local/go/src/runtime/panic.go:1191 +0x18\n",
        "internal/sync.fatal({0x6a9e7a?})\n\truntime/panic.go:1191 +0x18\n",
        "gopkg.in/yaml%2ev3.x(...)\n\t/root/go/pkg/mod/gopkg.in/yaml.v3@v3.0.1/x.go:1\n",
        "example.org/x.Y(...)\n\t/home/me/vendor/example.org/x/y.go:7\n",
    ],
)
def test_library_frames_are_skipped(above: str) -> None:
    assert signature_of(go_panic("boom", "Create 33", above=above)) == signature_of(
        go_panic("boom", "Create 33")
    )


def test_frames_of_the_plugins_other_packages_count() -> None:
    above = "example.org/plugin/inner.Bad[...](...)\n\t/home/me/inner/inner.go:3\n"
    assert signature_of(go_panic("boom", "Create 33", above=above)).endswith(
        "at example.org/plugin/inner.Bad[...] /home/me/inner/inner.go:3"
    )


def test_nested_panics_are_one_crash_without_further_lines_of_the_message() -> None:
    text = "one [recovered]\n  see above\n\tpanic: two\n[signal SIGSEGV: code=0x1 pc=0x4]"
    panic = crash_of(go_panic(text, "Create 3"))
    assert panic == (
        "panic: one [recovered] panic: two (in main.(*plugin).Create /home/me/main.go:3)"
    )


def test_go_fatal_error_has_a_signature_of() -> None:
    panic = go_panic("x", "Create 33").replace("panic: x", "fatal error: concurrent map writes")
    assert signature_of(panic).startswith(
        "fatal error: concurrent map writes at main.(*plugin).Create"
    )
    stack = f"runtime: goroutine stack exceeds 10-byte limit\n{panic}"
    assert signature_of(stack) == signature_of(panic)


def test_last_of_chained_tracebacks_counts() -> None:
    chained = (
        python_traceback("OSError: 1", "read 1"),
        "\nDuring handling …:\n",
        python_traceback("KeyError: 2", "x 2"),
    )
    assert signature_of(*chained) == signature_of(python_traceback("KeyError: 2", "x 2"))


def test_crash_is_forgotten_if_the_program_continues() -> None:
    output = CrashOutput()
    output.add("panic: only quoted", 5)
    output.forget_before(5)
    assert output.crash() is not None
    output.forget_before(6)
    assert output.crash() is None


HANDLED = """
import atexit, logging, os, signal, sys, warnings
def lookup():
    raise KeyError("cpu\\n3")
def create():
    try:
        lookup()
    except KeyError:
        logging.exception("no cpu")
"""
CLEANUP = """
class Cleanup:
    def __del__(self):
        raise ValueError("in a finalizer")
cleanup = Cleanup()
atexit.register(print, "over", file=sys.stderr)
async def late():
    pass
"""


def end_of_python(script: str) -> tuple[CrashOutput, int]:
    """Run a script in Python; return its output, printed at 0, and its exit status."""
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=False)
    output = CrashOutput()
    for line in done.stderr.decode().splitlines():
        output.add(line, 0)
    return output, done.returncode


@pytest.mark.parametrize(
    ("script", "words"),
    [
        # Uncaught, whatever the interpreter prints while it ends.
        (f"{CLEANUP}lookup()", "KeyError: 'cpu\\n3'"),
        (f"{CLEANUP}create()\nraise OSError('one\\ntwo\\nthree')", "OSError: one"),
        (f"{CLEANUP}coroutine = late()\nlookup()", "KeyError: 'cpu\\n3'"),
        ("os.kill(os.getpid(), signal.SIGINT)", "KeyboardInterrupt"),
        # Caught, and the reason of the exit.
        ("create()\nsys.exit(3)", "KeyError: 'cpu\\n3'"),
        (
            "async def late():\n    pass\ncoroutine = late()\ncreate()\nsys.exit(3)",
            "KeyError: 'cpu\\n3'",
        ),
        # Handled: the end has another reason.
        ("create()\nlogging.warning('trying again')\nos._exit(3)", ""),
        ("create()\nsys.exit('no configuration')", ""),
        ("create()\nos.kill(os.getpid(), signal.SIGKILL)", ""),
        ("create()", ""),
    ],
)
def test_only_the_traceback_that_ended_python_counts(script: str, words: str) -> None:
    output, status = end_of_python(f"{HANDLED}{script}\n")
    crash = output.crash(status)
    assert (crash.message if crash is not None else "") == words


@pytest.mark.parametrize("indent", ["", "  "])
def test_an_indented_traceback_is_read_like_any_other(indent: str) -> None:
    traceback = python_traceback("KeyError: 3", "create 33")
    logged = "error: create fails\n" + textwrap.indent(traceback, indent)
    assert crash_of(logged) == "KeyError: 3 (in create /opt/plugin.py:33)"
    assert not crash_of(logged, "error: giving up\n")


def test_a_traceback_long_before_the_end_was_handled() -> None:
    output, status = end_of_python(f"{HANDLED}create()\nsys.exit(3)\n")
    assert output.crash(status, CAUGHT_MAX_NS)
    assert not output.crash(status, CAUGHT_MAX_NS + 1)
    output, status = end_of_python(f"{HANDLED}lookup()\n")
    assert output.crash(status, CAUGHT_MAX_NS + 1)


@pytest.mark.parametrize("crash", [python_traceback, rust_panic])
def test_crash_is_not_the_end_if_other_output_follows(crash: Callable[[str, str], str]) -> None:
    logged = crash("ValueError: handled", "<module> 33")
    assert crash_of(logged, "a line\n" * (LATER_LINES_MAX - 5)) == crash_of(logged)
    assert not crash_of(logged, "a line\n" * (LATER_LINES_MAX + 5))
    assert crash_of(logged, "a line\n" * 30, crash("KeyError: 3", "x 2")) == crash_of(
        crash("KeyError: 3", "x 2")
    )


@pytest.mark.parametrize(
    ("crash", "words"),
    [
        (
            go_panic("boom", "Create 33"),
            "panic: boom (in main.(*plugin).Create /home/me/main.go:33)",
        ),
        (python_traceback("KeyError: 'x'", "f 3"), "KeyError: 'x' (in f /opt/plugin.py:3)"),
        (SYNTAX_ERROR, "SyntaxError: '(' was never closed (in /opt/plugin.py:3)"),
        (rust_panic("no cpu", "f 3"), "panicked: no cpu (in src/main.rs:3:9)"),
        (old_rust_panic("no cpu", "f 3"), "panicked: 'no cpu' (in src/main.rs:3:9)"),
        (
            rust_panic_in_library("no cpu", "f 3"),
            "panicked: no cpu (in ./src/create.rs:3)",
        ),
    ],
)
def test_text_of_a_crash(crash: str, words: str) -> None:
    assert crash_of(crash) == words


@given(st.lists(st.text(max_size=80), max_size=50))
def test_any_output_is_accepted(lines: list[str]) -> None:
    for head in ("panic: x", "Traceback (most recent call last):", "thread 'x' panicked at y:", ""):
        assert isinstance(signature_of("\n".join([head, *lines])), str)


def test_long_output_does_not_change_the_signature_of() -> None:
    long = signature_of(go_panic("boom", "Create 33"), "x\n" * 10 * CRASH_LINES_MAX)
    assert long == signature_of(go_panic("boom", "Create 33"))
