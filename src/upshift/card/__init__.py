"""The machine card: what memory, code, the kernel and the disk of this machine cost a server."""
