"""A report: one page with pictures and tables, CSV and Markdown, of any number of files."""
