# SPDX-License-Identifier: Apache-2.0
"""Small recordings that expand to large data, and tests of each command's memory use."""
