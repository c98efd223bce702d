"""Many users, one interaction: what is shared, what is a user's own, and the object for both."""
