# SPDX-License-Identifier: Apache-2.0
"""What keys start: each command gets the parts of the screen that it works with."""
