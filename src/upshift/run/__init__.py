"""One directory with everything one command did, and the stages that fill it."""
