"""Model families: one file each, found by `mien.zoo.registry`."""
