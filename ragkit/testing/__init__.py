"""Checks that ship with ragkit, for whoever writes a part of their own. Nothing in ragkit imports this."""
