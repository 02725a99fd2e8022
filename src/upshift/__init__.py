"""Upshift: rebuilds a MySQL server around the work it really does, and proves the gain."""

__version__ = "0.1.0"
