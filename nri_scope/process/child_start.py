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
    """Run ``main`` of a module, with the descriptor of the channel and what else it gets.

    What it returns is the exit status, None for 0.
    """
    module, parent, on_parents_death, path, channel, *arguments = sys.argv[1:]
    # Here at the earliest, and again by the channel's end: a process that is stopped reads nothing.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(on_parents_death), 0, 0, 0)
    if os.getppid() != int(parent):
        # It died before that.
        return 1
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # A module is found where the other process found it, whatever led there.
    sys.path[:] = json.loads(path)
    return __import__(module, fromlist=["main"]).main(int(channel), *arguments) or 0


if __name__ == "__main__":
    # There is nothing to clean up, and the other process waits.
    os._exit(main())
