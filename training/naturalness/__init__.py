"""Training of the classifier that tells swapped faces from untouched ones."""
