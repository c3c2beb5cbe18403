"""Training of the occluder masker: which pixels of a face crop are covered by something that is not the face."""
