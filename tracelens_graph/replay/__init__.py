"""Minimal programs that call one operation of a trace again."""
