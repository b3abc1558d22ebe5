"""The seed paper's experiments, one row at a time, and what the paper printed beside them."""
