"""The `mien` command, one file per subcommand.

Imports stay light: a subcommand's file is imported when it is called, and it imports the media and
inference libraries only when it runs, so help answers at once.
"""
