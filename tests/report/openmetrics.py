#!/usr/bin/env python3
"""Reads OpenMetrics text with prometheus_client's parser and prints its samples as JSON: [[name, labels, value]...]."""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

from report import python

if __name__ == "__main__":
    missing = python.need("prometheus_client")
    if missing:
        sys.exit(missing)
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with open(sys.argv[1], encoding="utf-8") as file:
        families = list(text_string_to_metric_families(file.read()))
    print(json.dumps([[s.name, s.labels, s.value] for family in families for s in family.samples]))
