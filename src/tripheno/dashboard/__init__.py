"""A live view of what the report shows, with names and verdicts, for one person's own machine."""
