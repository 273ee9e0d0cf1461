"""Declares the commands, one module each: the options of a command and the call of its action.

Each module imports its action only when the command runs, because ``--help`` and completion import
all modules.
"""
