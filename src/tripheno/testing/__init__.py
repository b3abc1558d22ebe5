"""What tests share: contract classes that every implementation inherits, and random small data.

Only tests import this; it needs pytest and hypothesis, which the product does not.
"""
