"""Parts on their own, and the rules of the house."""
