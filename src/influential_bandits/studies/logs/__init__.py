"""What can be said about a log: the diagnosis of any, and the study of MovieLens."""
