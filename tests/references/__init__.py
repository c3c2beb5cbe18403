"""What each family does before and after its network, written plainly in NumPy, one item at a time.

Written from the published contracts and not from the adapters, so that both would have to be wrong in the same way.
"""
