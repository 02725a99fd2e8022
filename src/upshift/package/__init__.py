"""The server to install, with its provenance and the way back."""
