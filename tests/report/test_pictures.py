"""scripts/report.py FILE… -o FOLDER/: reports in a browser, and the texts of their pictures."""

import json
import os
import random
import sys
import tempfile

import kit
from kit import Skipped, equal, execute, expect, test

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from browser import Browser
from samples import CALIBRATED_PICTURES, PICTURES, VERDICT, calibrated, collective, everything, report, write_records

OVERLAPS = os.path.join(kit.ROOT, "tests", "report", "overlaps.py")

SIZES = """Array.from(document.querySelectorAll("svg.picture"), (svg) => {
    const turn = svg.closest("figure:not(.wide)")?.querySelector("input.switch");
    if (turn && svg.parentElement.classList.contains("log") !== turn.checked) turn.click();
    const box = svg.getBoundingClientRect();
    return [svg.getAttribute("aria-label"), box.width, box.height, svg.querySelectorAll("path").length];
})"""
COLUMN = """Array.from(document.querySelectorAll("table")[%d].tBodies[0].rows, (row) => row.cells[%d].textContent)"""


def looks_right(browser, page, *pictures):
    """At the width of a phone and of a desktop: no error, no request, nothing cut off, and every picture."""
    for width in (360, 1280):
        browser.open(page, width)
        equal(browser.complaints(), [], f"complaints about {page} at {width}")
        wide = browser.run("document.documentElement.scrollWidth")
        expect(wide <= width, f"{page} is {wide} wide where {width} are there")
        found = browser.run(SIZES)
        labels = [one[0] for one in found]
        equal(
            [name for name in pictures if not any(label.startswith(name) for label in labels)],
            [],
            f"not among {labels}",
        )
        for label, across, down, paths in found:
            good = 100 < across < width and down > 30 and paths > 0
            expect(good, f"{label}: {across} x {down}, {paths} paths at {width}")


def switches(browser):
    """The bandwidth is linear, and after a click logarithmic; scripts are not needed for it."""
    shown = "Array.from(document.querySelectorAll('figure:not(.wide):has(.switch) .canvas'), (one) => getComputedStyle(one).display)"
    click = "document.querySelectorAll('label.switch').forEach((one) => one.click()), "
    equal(browser.run(shown), ["block", "none"], "the linear and the logarithmic picture")
    equal(browser.run(click + shown), ["none", "block"], "after a click")
    equal(browser.run(click + shown), ["block", "none"], "after a second one")


def enlarges(browser, page):
    """A wide picture is whole on a phone, and larger than it after a click."""
    browser.open(page, 360)
    wide = "document.querySelector('.wide .picture').getBoundingClientRect().width"
    expect(browser.run(wide) < 360, "it is not whole")
    expect(browser.run(f"document.querySelector('.wide label.switch').click(), {wide}") > 800, "it stays small")


def slides(browser, page):
    """A slider shows one round; without scripts, and on paper, all are there."""
    shown = """Array.from(document.querySelector('.rounds').querySelectorAll('.frame'), (one) => one.getClientRects().length)"""
    slide = "((slider) => { slider.value = 3; slider.dispatchEvent(new Event('input')); })(document.querySelector('.rounds input'))"
    browser.open(page, 1280)
    equal(browser.run(shown), [1, 0, 0, 0, 0, 0], "the first round")
    equal(browser.run(f"{slide}, {shown}"), [0, 0, 1, 0, 0, 0], "the third one")
    equal(browser.run("document.querySelector('.rounds input').getAttribute('aria-valuetext')"), "Round 3 of 6", "in words")
    browser.call("Emulation.setEmulatedMedia", media="print")
    equal(browser.run(shown), [1] * 6, "on paper")
    equal(browser.run("document.querySelector('.rounds input').getClientRects().length"), 0, "sliders on paper")
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page, 1280)
    equal(browser.run(shown), [1] * 6, "without scripts")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def adds_later_sections(browser, page):
    """What the script adds after loading is what a browser without scripts shows, and a link into it leads there."""
    told = "Array.from(document.querySelectorAll('section'), (one) => [one.id, one.querySelectorAll('svg, td, dd').length].join())"
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page, 1280)
    whole, later = browser.run(told), browser.run("document.querySelectorAll('section > noscript').length")
    expect(later > 0 and all(not one.endswith(",0") for one in whole), f"{later} later sections of {whole}")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    last = whole[-1].partition(",")[0]
    for address in (page, f"{page}?again#{last}"):
        browser.open(address, 1280)
        equal(browser.run(told), whole, "sections with scripts")
    down = browser.run(f"document.getElementById('{last}').getBoundingClientRect().top")
    expect(0 <= down < 900, f"the section of the link is at {down}")


def numbers_of(texts):
    return [float(text.replace(",", "")) for text in texts]


def sorts(browser):
    """A click sorts by numbers, a second one in reverse, and the head shows it."""
    head = 'document.querySelectorAll("table")[0].tHead.rows[0].cells'
    names = browser.run(f"Array.from({head}, (cell) => cell.textContent)")
    size = names.index("size")
    for state, order in (("ascending", 1), ("descending", -1)):
        browser.run(f"{head}[{size}].querySelector('button').click()")
        equal(browser.run(f"{head}[{size}].getAttribute('aria-sort')"), state, "what the head says")
        found = numbers_of(browser.run(COLUMN % (0, size)))
        equal(found, sorted(found)[::order], f"sizes, {state}")
    first = browser.run(f"{head}[0].querySelector('button').click(), " + COLUMN % (0, 0))
    equal(first, sorted(first), "words")
    equal(browser.run(f"{head}[{size}].getAttribute('aria-sort')"), "none", "what the other head says")


def prints_all(browser):
    """Folded parts are printed, and folded again afterwards."""
    count = "document.querySelectorAll('details:not([open])').length"
    closed = browser.run("document.querySelectorAll('details')[0].open = false, " + count)
    expect(closed > 0, "nothing is folded")
    equal(browser.run(f"dispatchEvent(new Event('beforeprint')), {count}"), 0, "folded on paper")
    equal(browser.run(f"dispatchEvent(new Event('afterprint')), {count}"), closed, "folded afterwards")
    # On each page that a table goes on to, its heads are text: those of buttons would stand on the first alone.
    browser.call("Emulation.setEmulatedMedia", media="print")
    heads = """Array.from(document.querySelectorAll("th"), (th) => [getComputedStyle(th, "::before").content.slice(1, -1) ===
        th.textContent, getComputedStyle(th.firstChild).display, getComputedStyle(th.closest("thead")).display].join())"""
    equal(set(browser.run(heads)), {"true,none,table-header-group"}, "heads on paper")
    browser.call("Emulation.setEmulatedMedia", media="")


PAPER = 695  # pixels between the margins of A4


def fits_paper(browser, page):
    """No table or picture goes beyond the margin, no number is broken, and nothing looks as if it could be clicked."""
    browser.open(page, PAPER)
    browser.call("Emulation.setEmulatedMedia", media="print")
    wide = """Array.from(document.querySelectorAll("table, figure, pre"), (one) => [one.closest("section").id, one.tagName,
        one.getBoundingClientRect().right]).filter((one) => one[2] > %d)""" % (PAPER + 1)
    equal(browser.run(wide), [], "beyond the margin")
    styles = lambda what, key: set(browser.run(f"Array.from(document.querySelectorAll('{what}'), (one) => getComputedStyle(one).{key})"))
    equal(styles("td.n", "whiteSpace"), {"nowrap"}, "numbers on paper")
    equal(styles("summary", "listStyleType"), {"none"}, "marks of folded parts on paper")
    equal(styles("#theme, .switch, .rounds input", "display"), {"none"}, "controls on paper")
    browser.call("Emulation.setEmulatedMedia", media="")


def themes(browser):
    colour = "getComputedStyle(document.body).backgroundColor"
    before = browser.run(colour)
    after = browser.run(f"document.getElementById('theme').click(), {colour}")
    expect(before != after, f"the button leaves the page {before}")
    equal(browser.run(f"document.getElementById('theme').click(), {colour}"), before, "and back")


def evil(records):
    """The records, with texts that try to be more than text."""
    bad = "\"'><script>pwned=1</script><img src=x onerror=pwned=1>]]>--></style></svg>{{7*7}}&lt;\u202e\x1b[31m|`"
    keep = ("kind", "run_id")
    change = lambda v: bad if isinstance(v, str) else [change(x) for x in v] if isinstance(v, list) else v
    return [{k: v if k in keep else change(v) for k, v in r.items()} for r in records]


def harmless(browser, page):
    browser.open(page, 1280)
    equal(browser.complaints(), [], "complaints about an evil page")
    equal(browser.run("typeof pwned"), "undefined", "what an evil record did")
    equal(
        browser.run("[document.scripts.length, document.images.length, document.styleSheets.length]"),
        [1, 0, 1],
        "scripts, images, styles",
    )
    expect("<script>pwned=1" in browser.run("document.body.textContent"), "the text is not on the page as it was")


@test(full=True)
def in_a_browser():
    """One browser for all tests that need one."""
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        path, records = collective(folder)
        _, target = report(folder, path)
        looks_right(
            browser,
            target + "index.html",
            *PICTURES[:4],
            "Iterations",
            "Distribution",
            "Arrivals, ring",
            "Arrivals, tree",
        )
        browser.open(target + "index.html", 1280)
        switches(browser)
        sorts(browser)
        themes(browser)
        prints_all(browser)
        paths, more = everything(folder)
        _, target = report(folder, *paths)
        looks_right(browser, target + "index.html", *PICTURES)
        enlarges(browser, target + "index.html")
        slides(browser, target + "index.html")
        adds_later_sections(browser, target + "index.html")
        fits_paper(browser, target + "index.html")
        told = browser.run("Array.from(document.querySelectorAll('.verdict li'), (one) => one.textContent)")
        equal(told, VERDICT["sentences"], "the sentences that come first")
        paths, some = calibrated(folder)
        _, target = report(folder, *paths)
        looks_right(browser, target + "index.html", *CALIBRATED_PICTURES)
        more += some
        _, target = report(folder, write_records(os.path.join(folder, "evil.jsonl"), evil(records + more)))
        harmless(browser, target + "index.html")


@test
def no_text_overlaps():
    with tempfile.TemporaryDirectory() as folder:
        path, records = collective(folder)
        long = [dict(r, algorithm_asked="n" * 90, collective="c" * 90) if r["kind"] == "result" else r for r in records]
        long = [dict(r, run_id="long") for r in long]
        paths, _ = everything(folder)
        first = [path, write_records(os.path.join(folder, "long.jsonl"), long), *paths]
        titles = ""
        for files in (first, calibrated(folder)[0]):
            result = execute([sys.executable, "-B", OVERLAPS, "--report", *files])
            if "has no" in result.err:
                raise Skipped(result.err.strip())
            for name, picture in json.loads(result.exits(0).out).items():
                equal((picture["overlaps"], picture["outside"]), ([], []), f"texts of {name} that overlap, are outside")
                titles += name
        for name in CALIBRATED_PICTURES:
            equal(titles.count(name), 2, f"pictures of {name}")


def sampled_at_random(records, seed):
    """The records with random times of iterations, with small or large differences."""
    draw = random.Random(seed)
    base, spread = 10 ** draw.uniform(-3, 8), draw.choice((1e-9, 1e-4, 0.01, 0.1, 1, 10))
    changed = []
    for r in records:
        if r["kind"] == "result":
            samples = sorted(base * (1 + spread * draw.random() ** 2) for _ in range(draw.choice((2, 8, 30))))
            at = lambda share: samples[int(share * (len(samples) - 1))]
            r = dict(r, samples_us=samples, time_us=at(0.6), p50_us=at(0.5), p95_us=at(0.95), p99_us=samples[-1])
            r.update(ci_low_us=samples[0], ci_high_us=samples[-1], busbw_GBps=r["size_bytes"] / at(0.6) / 1e3)
        changed.append(dict(r, run_id=f"random-{seed}"))
    return changed


@test(full=True)
def ticks_fit_whatever_is_measured():
    with tempfile.TemporaryDirectory() as folder:
        _, records = collective(folder)
        some = [r for seed in range(8) for r in sampled_at_random(records, seed)]
        path = write_records(os.path.join(folder, "random.jsonl"), some)
        result = execute([sys.executable, "-B", OVERLAPS, "--report", path])
        if "has no" in result.err:
            raise Skipped(result.err.strip())
        for name, picture in json.loads(result.exits(0).out).items():
            equal((picture["overlaps"], picture["outside"]), ([], []), f"texts of {name} that overlap, are outside")
