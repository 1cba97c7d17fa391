# SPDX-License-Identifier: Apache-2.0
"""What a wrapper runs: the tap, or the plugin as if there were none. Copied, not imported.

It lies beside the plugin's original and ``tap.json``. nri-scope may have been removed, or be one
for another Python, since the plugin was wrapped: whatever goes wrong before the connection was
taken, the plugin is executed in our place.
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
    # As the runtime called the wrapper.
    place, *arguments = sys.argv[1:]
    program = original
    try:
        if os.path.islink(original):  # noqa: PTH114
            # A relative one leads somewhere else from where it is kept.
            program = os.path.join(plugins, os.readlink(original))  # noqa: PTH115, PTH118
        with open(os.path.join(folder, "tap.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            manner = json.load(file)
        sys.path += [path for path in manner["paths"] if path not in sys.path]
        from nri_scope.cli.wrapped_plugin import run_wrapped

        run_wrapped(manner, place, program, arguments, given_environment())
    except Exception as error:  # noqa: BLE001 - whatever it is, the node needs its plugin
        tell(folder, f"{type(error).__name__}: {error}")
    # Python ignores the first two, the end of a tap the others: what is executed would, too.
    for number in (*IGNORED, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execve(program, [place, *arguments], given_environment())


def tell(folder: str, words: str) -> None:
    """Leave word of why there is no tap. Nobody reads what we print."""
    try:
        with open(os.path.join(folder, "untapped.txt"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words[:2000]}\n")
    except (OSError, ValueError):
        pass


def given_environment() -> dict[bytes, bytes]:
    """The variables with which the wrapper was started: Python may have added its own."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = [one.partition(b"=") for one in file.read().split(b"\0") if one]
    except OSError:
        return dict(os.environb)
    # bash adds two, though the wrapper unsets them: the program's name, and its depth in shells.
    given = {name: value for name, _, value in pairs if name != b"_"}
    if given.get(b"SHLVL") == b"0":
        del given[b"SHLVL"]
    return given


if __name__ == "__main__":
    main()
