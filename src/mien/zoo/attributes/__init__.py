"""One file per model family; `mien.zoo.registry` finds them."""
