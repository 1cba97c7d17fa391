# SPDX-License-Identifier: Apache-2.0
"""The program that a wrapper runs: the tap, or the plugin without a tap. Copied, not imported.

It is stored beside the plugin's original and ``tap.json``. Since the plugin was wrapped, nri-scope
may have been removed, or installed for another Python: on any error before the connection is taken,
this process executes the plugin instead.
"""

import json
import os
import signal
import sys
import time

IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


def main() -> None:
    """Run until the plugin or the runtime ends."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    name = os.path.basename(folder)  # noqa: PTH119
    plugins = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120
    original = os.path.join(folder, name)  # noqa: PTH118
    # The name by which the runtime called the wrapper.
    place, *arguments = sys.argv[1:]
    program = original
    try:
        if os.path.islink(original):  # noqa: PTH114
            # A relative link leads elsewhere from the folder it is kept in.
            program = os.path.join(plugins, os.readlink(original))  # noqa: PTH115, PTH118
        with open(os.path.join(folder, "tap.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            instructions = json.load(file)
        sys.path += [path for path in instructions["paths"] if path not in sys.path]
        from nri_scope.cli.wrapped_plugin import run_wrapped

        run_wrapped(instructions, place, program, arguments, given_environment())
    except Exception as error:  # noqa: BLE001 - the node needs its plugin despite any error
        tell(folder, f"{type(error).__name__}: {error}")
    # Python ignores the first two, and a tap at its end the others; the plugin would inherit that.
    for number in (*IGNORED, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execve(program, [place, *arguments], given_environment())


def tell(folder: str, words: str) -> None:
    """Write to a file why there is no tap, as the output of plugins is discarded."""
    try:
        with open(os.path.join(folder, "untapped.txt"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words[:2000]}\n")
    except (OSError, ValueError):
        pass


def given_environment() -> dict[bytes, bytes]:
    """Return the variables with which the wrapper was started, without those that Python added."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = [one.partition(b"=") for one in file.read().split(b"\0") if one]
    except OSError:
        return dict(os.environb)
    # bash adds two, though the wrapper unsets them: the program's name, and the shell level.
    given = {name: value for name, _, value in pairs if name != b"_"}
    if given.get(b"SHLVL") == b"0":
        del given[b"SHLVL"]
    return given


if __name__ == "__main__":
    main()
