# SPDX-License-Identifier: Apache-2.0
"""Find the smallest part of a recording with which a plugin still fails in the same way.

In: a recording, a way to start the plugins, and limits. Out: a smaller recording, and on request a
test with a golden. It tries parts by writing and replaying them, and never looks into what events
mean.
"""

from .failure import Check as Check
from .search import Progress as Progress
from .shrink import Failure as Failure
from .shrink import Limits as Limits
from .shrink import Shrinking as Shrinking
from .shrink import Shrunk as Shrunk
from .shrink import Wanted as Wanted
from .test_case import Place as Place
from .test_case import golden_of as golden_of
from .test_case import write_test as write_test
