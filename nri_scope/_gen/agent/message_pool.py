# SPDX-License-Identifier: Apache-2.0
import betterproto2

default_message_pool = betterproto2.MessagePool()
