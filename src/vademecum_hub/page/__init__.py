"""The web page of a hub: a workspace's activity, documents, search, review and members."""
