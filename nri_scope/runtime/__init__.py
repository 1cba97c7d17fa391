# SPDX-License-Identifier: Apache-2.0
"""The runtime's role: accept or launch plugins, configure, synchronize and ask them in turn."""

from .answer import Answer
from .course import Course, Step
from .exchange import Exchange
from .launch import read_config
from .outcome import Outcome
from .output import OnOutput, Output, OutputLine, Stream
from .play import FASTEST, Pace, Played, Stored, play, split_setup
from .plugin import Plugin
from .process import LeftBehind, Process, exit_in
from .profile import Profile, recorded_profile
from .profiles import PROFILES, RECORDED, profile_named
from .rejection import Rejection, Stage
from .server import Runtime
from .setup import ProfileSetUp, RecordedSetUp, SetUp, synchronize_parts

__all__ = [
    "FASTEST",
    "PROFILES",
    "RECORDED",
    "Answer",
    "Course",
    "Exchange",
    "LeftBehind",
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
    "Step",
    "Stored",
    "Stream",
    "exit_in",
    "play",
    "profile_named",
    "read_config",
    "recorded_profile",
    "split_setup",
    "synchronize_parts",
]
