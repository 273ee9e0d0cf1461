"""Declares the commands, one module each: the options of a command and the call of its action.

A module here imports its action when the command runs: ``--help`` and completion import them all.
"""
