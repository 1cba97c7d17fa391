# SPDX-License-Identifier: Apache-2.0
"""Start a wrapped plugin: with the tap, or without if that fails. Copied, not imported.

The copy is stored beside the original plugin and ``tap.json``. nri-scope may have been removed, or
installed for another Python, since the plugin was wrapped: on any error before the runtime's
connection is used, this process executes the plugin itself.
"""

import json
import os
import signal
import sys
import time

IGNORED = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTOU),
)


def main() -> None:
    """Run the tap, or replace this process with the plugin."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    name = os.path.basename(folder)  # noqa: PTH119
    plugins = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120
    original = os.path.join(folder, name)  # noqa: PTH118
    # The path by which the runtime called the wrapper.
    called_path, *arguments = sys.argv[1:]
    program = original
    try:
        if os.path.islink(original):  # noqa: PTH114
            # Resolve a relative link from the plugin's former folder.
            program = os.path.join(plugins, os.readlink(original))  # noqa: PTH115, PTH118
        with open(os.path.join(folder, "tap.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            instructions = json.load(file)
        sys.path += [path for path in instructions["paths"] if path not in sys.path]
        from nri_scope.tap.wrapped_plugin import run_wrapped

        run_wrapped(instructions, called_path, program, arguments, original_environment())
    except Exception as error:  # noqa: BLE001 - the node needs its plugin despite any error
        write_reason(folder, f"{type(error).__name__}: {error}")
    # Python ignores two of these signals, an ending tap the others: the plugin would inherit that.
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    os.execve(program, [called_path, *arguments], original_environment())


def write_reason(folder: str, reason: str) -> None:
    """Write to a file why there is no tap, as runtimes discard a plugin's output."""
    try:
        with open(os.path.join(folder, "untapped.txt"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {reason[:2000]}\n")
    except (OSError, ValueError):
        pass


def original_environment() -> dict[bytes, bytes]:
    """Return the variables with which the wrapper was started, without Python's own."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    except OSError:
        return dict(os.environb)
    # bash adds _ and SHLVL, although the wrapper unsets them.
    variables = {name: value for name, _, value in pairs if name != b"_"}
    if variables.get(b"SHLVL") == b"0":
        del variables[b"SHLVL"]
    return variables


if __name__ == "__main__":
    main()
