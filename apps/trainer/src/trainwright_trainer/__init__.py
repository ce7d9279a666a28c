"""The commands of the training container."""
