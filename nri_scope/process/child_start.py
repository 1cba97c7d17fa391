# SPDX-License-Identifier: Apache-2.0
"""The entry code of a helper process; see `child.spawn`. Run as a program, not imported.

Imports only a few modules of the standard library, as every start waits for them.
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
    # Set as early as possible, in addition to the channel's end, which a stopped process cannot
    # see.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(on_parents_death), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before the call above.
        return 1
    # Find modules where the parent found them, however its path was set up.
    sys.path[:] = json.loads(path)
    run = __import__(module, fromlist=["main"]).main
    # A terminal may be set to stop background processes that write to it (stty tostop).
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    # Stop signals that came since the start are handled now.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return run(int(channel), *arguments) or 0


if __name__ == "__main__":
    # No cleanup is needed, and the parent waits for the end.
    os._exit(main())
