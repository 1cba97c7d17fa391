# SPDX-License-Identifier: Apache-2.0
"""An open recording: rows by position, markers, what is shown, and the threads that read."""
