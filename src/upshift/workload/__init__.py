"""Workloads: how a database is filled and loaded, and what the driver reports."""
