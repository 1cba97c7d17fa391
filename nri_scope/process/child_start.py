# SPDX-License-Identifier: Apache-2.0
"""Entry point of a helper process; see `child.spawn`. Run as a program, never imported.

Imports few modules, as they delay the start of every helper process.
"""

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run ``main`` of a module with the channel's descriptor and the other arguments.

    Returns the exit status: the return value of the module's ``main``, or 0 for None.
    """
    module, parent, on_parents_death, path, channel, *arguments = sys.argv[1:]
    # Set as early as possible. The end of the channel alone is not enough: a stopped process does
    # not notice it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(on_parents_death), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before the call above.
        return 1
    # Modules are found where the parent finds them, however its path was set up.
    sys.path[:] = json.loads(path)
    run = __import__(module, fromlist=["main"]).main
    # A terminal may be set to stop background processes that write to it (stty tostop).
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    # Stop signals that arrived since the start are handled now.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return run(int(channel), *arguments) or 0


if __name__ == "__main__":
    # Without Python's cleanup, which is not needed: the parent waits for the exit.
    os._exit(main())
