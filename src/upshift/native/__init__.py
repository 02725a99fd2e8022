"""The programs of ours that are written in Rust: built from crates/ when they are missing or have changed."""
