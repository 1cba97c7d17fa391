# SPDX-License-Identifier: Apache-2.0
"""Find a small part of a recording with which a plugin still fails in the same way.

In: a recording, the plugins, and limits. Out: a smaller recording, and on request a test with a
golden. Parts are tested by writing and replaying them; this package never interprets the content of
events.
"""

from .failure import Check as Check
from .search import Progress as Progress
from .shrink import Failure as Failure
from .shrink import Limits as Limits
from .shrink import Shrinking as Shrinking
from .shrink import ShrinkJob as ShrinkJob
from .shrink import Shrunk as Shrunk
from .test_case import Place as Place
from .test_case import golden_of as golden_of
from .test_case import write_test as write_test
