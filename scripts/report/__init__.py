"""Pictures of records, a module per kind; scripts/report.py is the program."""
