"""Trains the network that blends a source's texture into a target's face."""
