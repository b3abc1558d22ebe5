"""Pure steps: what a hospital contributes, what the server does with the sum; and the one loop."""
