//! A page cache on a fast medium, in front of slower files.
