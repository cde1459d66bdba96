"""Keep memory true: "passes" propose edits of records, and one runner applies those edits."""
