# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface: a recording goes in, a screen comes out, and files that a key makes.

The app composes the frame, the views and the commands. It reads through the recording's readers,
and knows neither SQL nor how the file is written.
"""
