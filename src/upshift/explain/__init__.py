"""Why one server is faster than another: samples of both, their code, and what can be concluded from them."""
