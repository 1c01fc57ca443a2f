"""Profiles and clusters that are named without folder and ending: working directory, user, installed share."""

import os
import tempfile

import kit
from accept import profile, step
from kit import ROOT, built, equal, execute, expect, test

FIGURES = "system = hgx-h100\nnodes = {}\n"


def write(text, *path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Places:
    """A working directory and a user's folder, both empty."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.work = os.path.join(self.folder.name, "work")
        self.home = os.path.join(self.folder.name, "home")
        self.own = os.path.join(self.home, ".config", "busbench")
        os.makedirs(self.work)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def run(self, *words, **env):
        return execute(words, {"HOME": self.home, "XDG_CONFIG_HOME": "", **env}, cwd=self.work)

    def nodes(self, name, **env):
        """Nodes of the cluster NAME, from the record of a run on it."""
        words = f"--backend sim --cluster {name} -b 8 -e 8 --json -".split()
        record = self.run(built("all_reduce_perf"), *words, **env).exits(0).records("run")[0]
        return record["nranks"] // 8

    def steps(self, *words, **env):
        """The commands of a profile."""
        return self.run(built("acceptance"), "run", *words, "--dry-run", **env)


def mine(sizes):
    return profile(step(f"all_reduce_perf -g 2 -b 8 -e {sizes}"))


@test
def clusters_in_order():
    """The working directory wins, then XDG_CONFIG_HOME or ~/.config; a relative XDG_CONFIG_HOME does not count."""
    with Places() as p:
        write(FIGURES.format(2), p.own, "clusters", "own.txt")
        equal([p.nodes("own"), p.nodes("own.txt"), p.nodes("own:5")], [2, 2, 5], "of ~/.config")
        xdg = os.path.join(p.folder.name, "xdg")
        write(FIGURES.format(3), xdg, "busbench", "clusters", "own.txt")
        equal(p.nodes("own", XDG_CONFIG_HOME=xdg), 3, "of XDG_CONFIG_HOME")
        equal(p.nodes("own", XDG_CONFIG_HOME="xdg"), 2, "of a relative XDG_CONFIG_HOME")
        write(FIGURES.format(4), p.work, "own.txt")
        equal([p.nodes("own"), p.nodes("./own")], [4, 4], "of the working directory")
        write(FIGURES.format(6), p.work, "hgx-h100.txt")
        equal(p.nodes("hgx-h100:1"), 1, "a known system that a file has the name of")
        equal(p.nodes("hgx-h100.txt"), 6, "that file")
        os.makedirs(os.path.join(p.work, "aws-p5"))
        expect(p.nodes("aws-p5:2") == 2, "a folder is no cluster")


@test
def profiles_in_order():
    with Places() as p:
        p.steps("this-machine").exits(0).prints("all_reduce_perf")
        write(mine(1024), p.own, "profiles", "this-machine.yaml")
        p.steps("this-machine").exits(0).prints("-e 1024")
        write(mine(2048), p.work, "this-machine.yaml")
        p.steps("this-machine").exits(0).prints("-e 2048")
        p.steps("this-machine.yaml").exits(0).prints("-e 2048")


@test
def unknown_names():
    with Places() as p:
        p.steps("hgx-h10").exits(2).says("hgx-h10: no such profile", "did you mean hgx-h100?", p.own.replace(p.home, ""))
        p.steps("nothing-like-it").exits(2).says("there are dgx-a100, gb200-nvl72, ")
        p.steps("nowhere.yaml").exits(2).says("nowhere.yaml: cannot be opened")
        p.run(built("all_reduce_perf"), "--backend", "sim", "--cluster", "hgx-h10").exits(2).says("did you mean")


@test
def installed_share():
    """A binary in bin finds share/busbench beside it, and nothing around that."""
    with Places() as p:
        prefix = os.path.join(p.folder.name, "prefix")
        os.makedirs(os.path.join(prefix, "bin"))
        os.makedirs(os.path.join(prefix, "lib", "busbench"))
        kit.copy_programs([built("acceptance"), built("all_reduce_perf")], os.path.join(prefix, "bin"))
        write(mine(512), prefix, "share", "busbench", "profiles", "there.yaml")
        program = os.path.join(prefix, "bin", "acceptance")
        p.run(program, "run", "there", "--dry-run").exits(0).prints("-e 512")
        p.run(program, "run", "hgx-h100", "--dry-run").exits(2).says(os.path.join(prefix, "share"), "there are there")
    for folder in ("ci/profiles", "reports/reference/clusters"):
        expect(os.listdir(os.path.join(ROOT, folder)), f"{folder} is empty")
