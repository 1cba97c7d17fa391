# SPDX-License-Identifier: Apache-2.0
"""Why NRI does or does not work on a machine.

Evidence is gathered into plain dataclasses (``look_at_…``, ``read_…``, ``connect``, ``register``),
judged by pure functions (``check_…``), and rendered by `render`; `examine` puts it together.
"""
