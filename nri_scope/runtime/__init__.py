# SPDX-License-Identifier: Apache-2.0
"""Play the runtime's role: accept or launch plugins, configure, synchronize and ask them in turn.

In: requests to send, a profile of a runtime, and plugins' replies. Out: outcomes of operations,
merged as that runtime does, and what plugins printed. This room never knows recordings, and
never starts a container.
"""

from .answer import Answer
from .exchange import Exchange
from .lifecycle import Course, LifecycleStep
from .outcome import Outcome
from .output import OnOutput, Output, OutputLine, Stream
from .plugin import Plugin
from .plugin_setup import ProfileSetUp, RecordedSetUp, SetUp, synchronize_parts
from .process import LeftBehind, Process, exit_in
from .profile import Profile, recorded_profile
from .profiles import PROFILES, RECORDED, profile_named
from .rejection import Rejection, Stage
from .server import Runtime
from .stored_requests import FASTEST, Pace, Played, Stored, play, split_setup

__all__ = [
    "FASTEST",
    "PROFILES",
    "RECORDED",
    "Answer",
    "Course",
    "Exchange",
    "LeftBehind",
    "LifecycleStep",
    "OnOutput",
    "Outcome",
    "Output",
    "OutputLine",
    "Pace",
    "Played",
    "Plugin",
    "Process",
    "Profile",
    "ProfileSetUp",
    "RecordedSetUp",
    "Rejection",
    "Runtime",
    "SetUp",
    "Stage",
    "Stored",
    "Stream",
    "exit_in",
    "play",
    "profile_named",
    "recorded_profile",
    "split_setup",
    "synchronize_parts",
]
