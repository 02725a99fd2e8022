"""Proves a patched server right against stock: the same bytes, right answers beside disturbances and after a crash."""
