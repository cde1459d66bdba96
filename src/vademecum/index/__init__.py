"""The rebuildable shadow of memory: chunks, keywords and vectors in one disposable file."""
