"""What a training run left: the hot set, compiler profiles, and the gate that refuses bad ones."""
