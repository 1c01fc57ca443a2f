"""Drawings of what busbench writes, one file a kind; scripts/report.py is the way in."""
