"""What `shardwise import` runs in the user's Python: a package for each source of models."""
