"""Compilers, linkers and profile tools: finding them, and knowing their command lines."""
