"""The one primitive: every hospital contributes named arrays, and all go on with the same sum."""
