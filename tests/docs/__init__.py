# SPDX-License-Identifier: Apache-2.0
"""What the documentation says is true."""
