# SPDX-License-Identifier: Apache-2.0
"""What the terminal user interface shows, without a terminal: plain values and state machines."""
