# SPDX-License-Identifier: Apache-2.0
"""What the black-box tests are made of. Nothing here knows more of xveth than its users do."""
