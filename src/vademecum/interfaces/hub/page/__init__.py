"""The web page over the hub: what a workspace's members and agents did, its documents, review and members."""
