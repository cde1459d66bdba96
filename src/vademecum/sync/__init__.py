"""One memory on several machines: facts that only ever grow in number, and the files they are shown as."""
