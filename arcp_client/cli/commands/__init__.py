"""Declares the commands, one module each: the options of a command and the call of its action.

A module imports its action only when the command runs, because ``--help`` and completion import all
modules of this package.
"""
