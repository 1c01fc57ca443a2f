"""Draws mutants: one small change each of an expression in the functions that judge, prove, compute or schedule.

A site is a token, a statement or a condition. All sites are shuffled by the seed, and each gives one of its changes.
"""

import collections
import difflib
import glob
import os
import random
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Where mutants are drawn: folders, and names wherever they are, since files are joined and moved. Each has a file. What only
# prints, reads options, holds data or drives a run is left out.
WHERE = """schedules/**/* programs/**/* models/**/* logs/**/* diagnose/**/* suspects/**/* simulator/**/* topology/*
topology/files/* acceptance/* acceptance/tool/run **/train **/sampler training_kernels/hybrid/* training_kernels/pipeline/* **/stats
**/units **/payload **/share **/scalar **/recommend **/nearest **/bound core/json* **/printable **/secret **/greet
**/star **/control* **/judge **/link_bound **/engine **/pattern **/compare **/retest **/paths **/ledger **/load""".split()
NOT = (r"_text|_perf|^text|trace|explain|document|report|records?$|main|drive|stage|export|presets|cards|config|program$"
       r"|data$|show|verdict|topology_json|profile|session|process|plan_check|gates|ports|hybrid$|pipeline$|results")  # fmt: skip

TOKEN = re.compile(
    r"""(?P<skip>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:\\.|[^\n\\])*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>0[xX][\da-fA-F]+\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)|(?P<name>[A-Za-z_]\w*)
    |(?P<mark><<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|.)""",
    re.M | re.S | re.X,
)
Token = collections.namedtuple("Token", "kind text start end")
# What is exchanged for what. Binary operators only after an operand.
BINARY = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<": "<= >=", "<=": "< >", ">": ">= <=", ">=": "> <", "==": "!=",
          "!=": "==", "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "*=": "/=",
          "/=": "*=", "|=": "&=", "&=": "|=", "++": "--", "--": "++"}  # fmt: skip
WORDS = {"true": "false", "break": "continue", "fmin": "fmax", "floor": "ceil", "rint": "trunc"}
WORDS.update({new: old for old, new in WORDS.items()})
KEYWORDS = set("if else for while do switch case default return goto break continue static const struct enum union".split())
# Their arguments are left alone: assertions, and sizes of memory, which the sanitizers judge.
SILENT = r"(static_|_Static_)?assert|sizeof|[mc]alloc|realloc|BB_ARRAY_\w+|bb_no_memory"
# Their arguments may change places.
SYMMETRIC = r"(str|mem)n?(case)?cmp|f(min|max)"
# Statements that only give back what a run has.
RELEASE = r"free|close|fclose|munmap|\w+_(free|close|release|unlock|destroy|decref)"
# In statements that no test reaches: memory is exhausted, or the code contradicts itself.
UNREACHED = ("bb_no_memory", "BB_EINTERNAL")
# What returns NULL without memory alone.
ALLOCATES = r"[mc]alloc|realloc|strn?dup|BB_ARRAY_(ADD|PUT)"


class Mutant:
    """A change of FILE: bytes START to END become NEW."""

    def __init__(self, source, function, start, end, new):
        self.file, self.text, self.function = source.file, source.text, function
        self.start, self.end, self.new, self.old = start, end, new, source.text[start:end]

    def lines(self):
        """Those of the statement that changes: the lines of an initialiser count as its first."""
        begin = max(m.end() for m in re.finditer(r"[;}]|\) \{\n|else \{\n|^\{\n", self.text[: self.start], re.M))
        return range(self.text.count("\n", 0, begin) + 1, self.text.count("\n", 0, self.end) + 2)

    def body(self):
        """Those of the function, for statements that gcov does not count."""
        begin, end = self.text.rfind("\n{", 0, self.start) + 1, self.text.find("\n}", self.end)
        return range(self.text.count("\n", 0, begin) + 1, self.text.count("\n", 0, end) + 2)

    def mutated(self):
        return self.text[: self.start] + self.new + self.text[self.end :]

    def diff(self):
        texts = self.text.splitlines(), self.mutated().splitlines()
        lines = list(difflib.unified_diff(*texts, lineterm="", n=1))[2:]
        return "\n".join([f"{self.file}: {self.function}()"] + lines)

    def says(self):
        """The changed lines in one: OLD => NEW, with single spaces."""
        first, last = self.text.rfind("\n", 0, self.start) + 1, self.text.find("\n", self.end)
        whole = self.text[first : self.start] + self.new + self.text[self.end : last]
        return " ".join(f"{self.text[first:last]} => {whole}".split())


class Siblings:
    """Enumerators beside each other, and members of one struct that have one type."""

    def __init__(self, paths):
        self.of = collections.defaultdict(set)
        for path in sorted(paths):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.S)
            for body in re.findall(r"\benum\s*\w*\s*\{([^{}]*)\}", text):
                self.add(re.findall(r"(?:^|,)\s*([A-Z]\w*)", body))
            for body in re.findall(r"\bstruct\s*\w*\s*\{([^{}]*)\}", text):
                types = collections.defaultdict(list)
                for kind, names in re.findall(r"^\s*((?:const |unsigned |struct |enum )*\w+) ([\w*, ]+);", body, re.M):
                    for name in names.split(","):
                        types[kind + "*" * name.count("*")].append(name.strip(" *"))
                for names in types.values():
                    self.add(names)

    def add(self, names):
        for one, other in zip(names, names[1:]):
            self.of[one].add(other)
            self.of[other].add(one)


class Source:
    def __init__(self, path, siblings):
        self.file, self.siblings = path, siblings
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            self.text = file.read()
        self.tokens = [Token(m.lastgroup, m[0], *m.span()) for m in TOKEN.finditer(self.text) if m.lastgroup != "skip"]
        self.partner, opened = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in ("(", "[", "{"):
                opened.append(i)
            elif token.text in (")", "]", "}"):
                self.partner[i] = opened.pop()
                self.partner[self.partner[i]] = i

    def word(self, i):
        return self.tokens[i].text

    def bodies(self):
        """(name, first token, last token) of each function."""
        i = 0
        while i < len(self.tokens):
            if self.word(i) == "{":
                if self.word(i - 1) == ")":
                    yield self.word(self.partner[i - 1] - 1), i + 1, self.partner[i]
                i = self.partner[i]
            i += 1

    def sites(self):
        """What Mutant() takes, for each change of each site."""
        for function, first, last in self.bodies():
            i = first
            while i < last:
                i = self.after_silence(i)
                if self.is_unreached(i, last) or self.lacks_memory(i, first, last):
                    i = self.statement_end(i) + 1
                    continue
                found = [(self, function, *change) for change in self.changes(i)] if i < last else []
                if found:
                    yield found
                i += 1

    def statement_end(self, i):
        """The semicolon or brace that ends the statement of token I."""
        while self.word(i) not in (";", "{", "}"):
            i = self.partner[i] + 1 if self.word(i) in ("(", "[") else i + 1
        return i

    def is_unreached(self, i, last):
        return i < last and self.begins(i) and any(self.word(at) in UNREACHED for at in range(i, self.statement_end(i)))

    def lacks_memory(self, i, first, last):
        """Whether token I begins a statement that is done if what the function from FIRST on has allocated is NULL."""
        if i >= last or self.word(i) != "if":
            return False
        inside = self.text[self.tokens[i + 2].start : self.tokens[self.partner[i + 1]].start]
        if re.fullmatch(r"!?BB_ARRAY_PUT\(.*\)", inside, re.S):
            return True
        before = self.text[self.tokens[first].start : self.tokens[i].start]
        names = re.findall(r"!(?:\w+(?:->|\.))*(\w+)", inside)
        return bool(re.fullmatch(r"(!(\w+(->|\.))*\w+(\s*\|\|\s*)?)+", inside)) and all(
            re.search(rf"\b{name}\b\s*=[^;]*\b({ALLOCATES})\(", before) for name in names)

    def begins(self, i):
        """Whether a statement begins with token I."""
        return self.word(i - 1) in (";", "{", "}", "else") or (
            self.word(i - 1) == ")" and self.word(self.partner[i - 1] - 1) in KEYWORDS)

    def after_silence(self, i):
        """The next token from I on that may change: behind data tables, silent calls and the arguments of a format."""
        word, begins = self.word(i), self.word(i - 1) in (";", "{", "}")
        if begins and word == "static":
            while self.word(i) != ";":
                i = self.partner[i] + 1 if self.word(i) in ("{", "[", "(") else i + 1
        elif self.word(i + 1) == "(" and word == "BB_ARRAY_PUT":  # what is appended may change
            commas = 0
            for i in range(i + 2, self.partner[i + 1]):
                commas += self.word(i) == ","
                if commas == 3:
                    return i + 1
        elif self.word(i + 1) == "(" and re.fullmatch(SILENT, word):
            return self.partner[i + 1]
        elif self.tokens[i].kind == "text" and "%" in word:
            while self.word(i) not in (")", "}", ";"):
                i = self.partner[i] + 1 if self.word(i) in ("{", "[", "(") else i + 1
        return i

    def changes(self, i):
        """(start, end, new text) of each change of the site that begins with token I."""
        kind, word, start, end = self.tokens[i]
        before, after = self.tokens[i - 1], self.tokens[i + 1]
        operand = before.kind in ("name", "number", "text") and before.text not in KEYWORDS or before.text in (")", "]")
        if kind == "mark" and word in BINARY and (operand or word in ("++", "--")):
            yield from ((start, end, new) for new in BINARY[word].split())
        elif word == "?":
            yield from ((start, end, new) for new in ("|| 1 ?", "&& 0 ?"))
        elif word == "!" or (word == "-" and not operand):
            yield start, end, ""
        elif kind == "number" and before.text != "{" and not self.is_dimension(i) and not self.is_sign(i):
            whole = re.fullmatch(r"\d+[uUlL]*|0[xX]\w+", word)
            news = (f"{word} + 1", f"{word} - 1") if whole else (f"2 * {word}", f"{word} / 2")
            yield from ((start, end, f"({new})") for new in news[: 1 if self.is_first_index(i) else 2])
        elif kind == "name":
            yield from ((start, end, new) for new in [WORDS.get(word)] if new)
            if before.text in (".", "->") or word.upper() == word:
                yield from ((start, end, new) for new in sorted(self.siblings.of[word]))
            if after.text == "(" and word in ("if", "while"):
                inside = self.tokens[i + 2].start, self.tokens[self.partner[i + 1]].start
                yield from ((*inside, new) for new in ("0", "1")[: 2 if word == "if" else 1])
            elif after.text == "(" and word not in KEYWORDS and not re.fullmatch(SYMMETRIC, word):
                yield from self.swapped(i + 1)
        if self.begins(i):
            yield from self.dropped(i)

    def is_first_index(self, i):
        """Whether token I is the 0 that a loop begins at: what is before that, the sanitizers judge."""
        return self.word(i) == "0" and self.word(i - 1) == "=" and "for" in [self.word(at) for at in range(i - 6, i - 3)]

    def is_dimension(self, i):
        return self.word(i - 1) == "[" and (self.tokens[i - 3].kind == "name" or self.word(i - 3) == "*")

    def is_sign(self, i):
        """Whether token I is what a comparison of strings or memory is compared with."""
        return self.word(i - 2) == ")" and bool(re.fullmatch(r"(str|mem)n?(case)?cmp", self.word(self.partner[i - 2] - 1)))

    def swapped(self, i):
        """Neighbouring arguments of the call that opens with token I. A format "%s" and its text give the same."""
        starts, j = [i + 1], i + 1
        while j < self.partner[i]:
            if self.word(j) == ",":
                starts.append(j + 1)
            j = self.partner[j] + 1 if self.word(j) in ("(", "[", "{") else j + 1
        spans = [(self.tokens[a].start, self.tokens[b - 2].end) for a, b in zip(starts, starts[1:] + [self.partner[i] + 1])]
        for (a, b), (c, d) in zip(spans, spans[1:]):
            if self.text[a:b] != self.text[c:d] and not re.match(r'"[^"]*%', self.text[a:b]):
                yield a, d, self.text[c:d] + self.text[b:c] + self.text[a:b]

    def dropped(self, i):
        """The statement that begins with token I, unless it declares, jumps or releases."""
        words, j = [], i
        while self.word(j) not in (";", "{", "}"):
            words.append(self.word(j))
            j = self.partner[j] + 1 if self.word(j) in ("(", "[") else j + 1
        declares = len(words) > 1 and re.match(r"\w", words[0]) and re.match(r"\w|\*", words[1])
        acts = "(" in words[1:2] or any(re.fullmatch(r"(?![=!<>]=).*=|\+\+|--", word) for word in words)
        if self.word(j) == ";" and acts and not declares and not re.fullmatch(f"{RELEASE}|{'|'.join(KEYWORDS)}", words[0]):
            yield self.tokens[i].start, self.tokens[j].start, ""


def files(patterns=WHERE):
    """The files of each pattern."""
    found = {p: [f for f in glob.glob(os.path.join(ROOT, "src", p + ".c"), recursive=True) if not re.search(NOT, os.path.basename(f)[:-2])]
             for p in patterns}  # fmt: skip
    missing = [p for p, paths in found.items() if not paths]
    if missing:
        raise LookupError(f"no file in src is {' or '.join(missing)}")
    return sorted({os.path.relpath(path, ROOT) for paths in found.values() for path in paths})


def draw(seed):
    """All mutants that may be drawn, one of each site, in the order of SEED."""
    siblings = Siblings(glob.glob(os.path.join(ROOT, "src", "**", "*.[ch]"), recursive=True))
    sites = [site for path in files() for site in Source(path, siblings).sites()]
    chance = random.Random(seed)
    chance.shuffle(sites)
    return [Mutant(*chance.choice(site)) for site in sites]
