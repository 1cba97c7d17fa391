# SPDX-License-Identifier: Apache-2.0
"""The first lines that a helper process runs; see `child.spawn`. A program, not imported.

Only the standard library is imported, and little of it: this is part of every start.
"""

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run ``main`` of a module, with the descriptor of the channel and its other arguments.

    Its return value is the exit status, None for 0.
    """
    module, parent, on_parents_death, path, channel, *arguments = sys.argv[1:]
    # Set as early as possible, in addition to the channel's end: a stopped process reads nothing.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(on_parents_death), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before that.
        return 1
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Modules are found where the other process found them, however its path was made.
    sys.path[:] = json.loads(path)
    return __import__(module, fromlist=["main"]).main(int(channel), *arguments) or 0


if __name__ == "__main__":
    # There is nothing to clean up, and the other process waits for the end.
    os._exit(main())
