"""Custom operations of serving libraries: how they are planned and called again; a table per library."""
