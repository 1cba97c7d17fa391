# SPDX-License-Identifier: Apache-2.0
"""Draw the lifetimes of pods and containers on a time axis.

In: lifetimes and events from the store. Out: a line for each pod and container, and Textual
messages when the selection changes. This package never reads the recording outside the store's
threads.
"""
