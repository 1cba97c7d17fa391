# SPDX-License-Identifier: Apache-2.0
"""Everything that connects to a runtime, against a server that fails as iSulad does."""
