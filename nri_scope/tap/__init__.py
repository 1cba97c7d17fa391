# SPDX-License-Identifier: Apache-2.0
"""Between a runtime and one plugin: every byte is relayed, and what was said is recorded."""
