"""Pictures of algorithms: where ranks are, who sends to whom, and that those of docs/algorithms are up to date."""

import json
import os
import re
import sys
import tempfile
import xml.etree.ElementTree

import kit
from kit import equal, expect, run, test

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(kit.ROOT, "scripts"))

import rounds as written
from report import rounds
from report.records import Run
from samples import read, records_of, report, write_records


def explained(words):
    """(the schedules of a run, notes)"""
    head, *records = [json.loads(line) for line in run(f"{words} --explain --json -").exits(0).out.splitlines()]
    one = Run(head, 1)
    one.records = records
    return rounds.schedules_of(one)


def drawn(words):
    (schedule,), notes = explained(words)
    equal(notes, [], f"notes on {words}")
    return schedule, rounds.Sheet(schedule)


@test
def a_ring_is_a_circle():
    """In clockwise order; every message of a round goes to the next rank, with its part's colour and content."""
    schedule, sheet = drawn("all_reduce -g 6 --algo ring")
    points = list(sheet.points.values())[0]
    turns = [(points[r][0] - sheet.middle[0], points[r][1] - sheet.middle[1]) for r in range(6)]
    expect(all(a[0] * b[1] - a[1] * b[0] > 0 for a, b in zip(turns, turns[1:] + turns[:1])), f"not clockwise: {turns}")
    frames = sheet.frames()
    equal([frame.title for frame in frames], [f"Round {i} of 10" for i in range(1, 11)], "titles")
    equal(frames[0].told.partition(";")[0], "0 sends f0=5 to 1", "what is said of round 1")
    equal(sorted(a.label for a in frames[0].arrows), ["a1", "b2", "c3", "d4", "e5", "f0"], "labels of round 1")
    equal([len({a.color for a in frame.arrows}) for frame in frames], [6] * 10, "colours")
    equal([{a.dashed for a in frame.arrows} for frame in frames], [{False}] * 5 + [{True}] * 5, "sums are solid")


@test
def a_tree_has_levels():
    """Each tree of the double tree, below its own root; sums go up, results down."""
    _, sheet = drawn("all_reduce -g 8 --algo tree")
    equal((sheet.round, len(sheet.points)), (False, 2), "two trees")
    for root, points in zip((0, 1), sheet.points.values()):
        equal(min(points, key=lambda rank: points[rank][1]), root, "the rank on top")
        equal(len(set(points.values())), 8, "places")
        levels = sorted({y for _, y in points.values()})
        equal([sum(y == level for _, y in points.values()) for level in levels], [1, 1, 2, 4], "ranks of the levels")
    ways = [{a.end[1] < a.start[1] for a in frame.arrows} for frame in sheet.frames()]
    equal(ways, [{True}] * 3 + [{False}] * 3, "upwards, then downwards")
    equal(drawn("scatter -g 8 --algo tree -r 5")[1].points[0][5][1], rounds.TOP + rounds.LETTERS, "the root is on top")
    for words in ("broadcast -g 8 --algo ring", "all_reduce -g 8 --algo recursive_doubling", "alltoall -g 5 --algo naive"):
        expect(drawn(words)[1].round, f"{words} is no tree with branches")


@test
def labels_name_elements_and_ranks():
    for content, ranks, wanted in (
        ("c0+c3=4", 4, "c0+c3"), ("a0..3=0 b0..3=4", 8, "a–b 0..3"), ("e0..7=32 .. h0..7=56", 8, "e–h"),
        ("e6..5=32 .. h6..5=56", 8, "e–h"), ("a1+a2=0 b1+b2=2", 4, "a–b 1+2"), ("a0+a1=0 b0+b1=2", 2, "a–b"),
        ("a0 b0 c0", 4, "a0–c0"), ("(30)2 ..", 64, "(30)2…"), ("", 4, ""), ("a:3=0 .. b:3=1", 8, "a–b :3"),
    ):  # fmt: skip
        equal(rounds.label_of(content, ranks), wanted, content)


@test
def documents_are_up_to_date():
    """docs/algorithms has a picture of each algorithm, as docs/algorithms.md shows it."""
    folder = os.path.join(kit.ROOT, "docs", "algorithms")
    found = written.pictures(os.path.dirname(kit.built("all_reduce_perf")))
    shown = re.findall(r"\(algorithms/(.*?)\)$", read(kit.ROOT, "docs", "algorithms.md"), re.M)
    equal(sorted(shown), sorted(found), "pictures of docs/algorithms.md")
    equal(sorted(os.listdir(folder)), sorted(found), "files of docs/algorithms")
    for name, data in found.items():
        equal(read(folder, name), data, f"docs/algorithms/{name} (make docs)")
        xml.etree.ElementTree.fromstring(data)
        expect(len(data) < 10000, f"{name} has {len(data)} bytes")


@test
def a_page_has_every_round():
    """Without its script too; what cannot be drawn is named."""
    with tempfile.TemporaryDirectory() as folder:
        words = "--explain", "-g", "4", "--algo", "ring,tree"
        path, records = records_of(folder, "some", "all_reduce_perf", *words)
        page = read(report(folder, path)[1], "index.html")
        equal(page.count('<svg class="round"'), 6 + 4, "rounds")
        expect('aria-label="Round 1 of 6: 0 sends d0=3 to 1; ' in page, "no words for a round")
        for answer in "Ring: 6 rounds, 24 messages.", "Tree: 4 rounds, ", "calculated; nothing was run.":
            expect(answer in page, f"{answer!r} is not on the page")
        odd = [dict(r, nranks=1000) if r["kind"] == "schedule" and r["algorithm"] == "tree" else r for r in records]
        odd = [dict(r, to=-7, part="x") if r["kind"] == "message" and r["round"] == 2 else r for r in odd]
        page = read(report(folder, write_records(os.path.join(folder, "odd.jsonl"), odd))[1], "index.html")
        equal(page.count('<svg class="round"'), 5, "rounds of what can be used")
        expect("no picture of all_reduce by tree, 1,000 ranks: it has 1,000 ranks" in page, "no note")
