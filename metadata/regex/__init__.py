"""Regular expressions in RE2's syntax, matched in time linear in the length of the text."""
