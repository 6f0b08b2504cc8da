"""The commands of `kraft`: one module for each name after `kraft`. A module is imported when its command is used."""
