"""Proof that the optimised server still is the same server: its tests, and its hardening."""
