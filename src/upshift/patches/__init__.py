"""Patch series: what they are, where they fit, and source trees with them."""
