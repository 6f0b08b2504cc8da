"""Checks the arguments of public calls against the annotations of their parameters, at the call.

A wrong argument that a background task finds later would end the client and all that it holds.
"""
