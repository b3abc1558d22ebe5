"""A federation of separate machines: the engine carries bytes, everything else is ours."""
