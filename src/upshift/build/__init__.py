"""Turning a source into a server: recipes, whole builds, and rebuilding only what runs."""
