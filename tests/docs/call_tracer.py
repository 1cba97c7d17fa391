# SPDX-License-Identifier: Apache-2.0
"""Run a command of nri-scope, and write which of its modules call which.

A program: ``call_tracer.py FILE … nri_scope COMMAND …``. Each line of FILE is a process, a module
and a module that it calls, in the order of calls. Helper processes write theirs, too. Calls of
dunder methods, and their calls, do not count: to make an object is no step of a walk.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[2] / "nri_scope"
FILE = "CALL_TRACER_FILE"
"""The environment variable by which helper processes know the file."""
_calls: list[tuple[str, str]] = [("", "")]


def _module(frame: FrameType) -> str:
    """The module of a frame, without the package: ``writer.main``; "" for another package."""
    name = frame.f_code.co_filename
    if not name.startswith(f"{PACKAGE}/"):
        return ""
    return name[len(str(PACKAGE)) + 1 : -len(".py")].replace("/", ".").removesuffix(".__init__")


def _profile(frame: FrameType, kind: str, _: Any) -> None:
    if kind != "call" or frame.f_code.co_name.startswith(("<", "__")):
        return
    if called := _module(frame):
        caller = frame.f_back
        while caller is not None and not _module(caller):
            caller = caller.f_back
        if caller is None or caller.f_code.co_name.startswith(("<module>", "__")):
            return
        call = _module(caller), called
        if call[0] != called and call != _calls[-1]:
            _calls.append(call)


def _start() -> None:
    threading.setprofile(_profile)
    sys.setprofile(_profile)


def _write(path: str) -> None:
    sys.setprofile(None)
    lines = "".join(f"{os.getpid()} {caller} {called}\n" for caller, called in _calls[1:])
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(lines)


def main() -> None:
    """Run the command, or the helper process that a command has started."""
    if path := os.environ.get(FILE):
        helper = runpy.run_path(str(PACKAGE / "process/child_start.py"))["main"]
        _start()
        status = helper()
        _write(path)
        os._exit(status)
    path = os.environ[FILE] = sys.argv[1]
    sys.path.insert(0, str(PACKAGE.parent))
    from nri_scope.process import child

    child.START = Path(__file__)
    sys.argv = sys.argv[sys.argv.index("nri_scope") :]
    atexit.register(_write, path)
    _start()
    runpy.run_path(str(PACKAGE / "__main__.py"), run_name="__main__")


if __name__ == "__main__":
    main()
