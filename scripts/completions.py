#!/usr/bin/env python3
"""Writes completions of busbench and all tools of a build, from the declarations of their options.

    scripts/completions.py BUILD FOLDER     writes FOLDER/bash/busbench, FOLDER/zsh/_busbench, FOLDER/fish/NAME.fish
"""

import os
import shlex
import sys

import schemas

HEAD = "# Completion of busbench, made from the declarations of its options.\n"
PROFILES = "busbench profiles 2>/dev/null | grep -v '^#' | cut -d' ' -f1"
CLUSTERS = "busbench clusters 2>/dev/null | grep -v '^#' | cut -d' ' -f1"


def programs(found):
    return [program for tool in found for program in tool.programs]


def tools_with_subjects(found):
    return [tool for tool in found if tool.subjects()]


def cases(of):
    """Shell lines of a case for {value: [pattern…]}."""
    return "".join(f"\t{' | '.join(patterns)}) echo {shlex.quote(value)} ;;\n" for value, patterns in of.items())


def grouped(pairs):
    """{value: [key…]} of (key, value)…, in order."""
    found = {}
    for key, value in pairs:
        found.setdefault(value, []).append(shlex.quote(key))
    return found


# ---- bash ------------------------------------------------------------------------------------

BASH = """
_busbench_command() {
	case $1 in
COMMANDS	esac
}

_busbench_subjects() {
	case $1 in
SUBJECTS	esac
}

_busbench_options() {
	case $1 in
OPTIONS	esac
}

# The kind of the value of an option, and its words; nothing if it has none.
_busbench_value() {
	case $1 in
VALUES	esac
}

_busbench_reply() {
	local kind=$1 cur=$2
	shift 2
	case $kind in
	words) mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur") ;;
	list)
		local before=${cur%"${cur##*,}"}
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$*" -- "${cur##*,}")
		compopt -o nospace 2>/dev/null
		;;
	files)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	folders)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	clusters)
		mapfile -t COMPREPLY < <(compgen -f -W "$(LIST_CLUSTERS)" -- "$cur")
		;;
	profiles)
		mapfile -t COMPREPLY < <(compgen -f -W "$(LIST_PROFILES)" -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	esac
}

_busbench() {
	local at=1 key=${COMP_WORDS[0]##*/} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} value subjects
	COMPREPLY=()
	# bash divides --option=value.
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	if [ "$key" = busbench ]; then
		if [ "$COMP_CWORD" = 1 ]; then
			_busbench_reply words "$cur" "TOOLS --help --version"
			return
		fi
		key=$(_busbench_command "${COMP_WORDS[1]}")
		at=2
	fi
	subjects=$(_busbench_subjects "$key")
	if [ -n "$subjects" ]; then
		if [ "$COMP_CWORD" = $at ]; then
			_busbench_reply words "$cur" "$subjects --help --version"
			return
		fi
		# Without a subject, the first.
		case ${COMP_WORDS[at]} in
		-*) key="$key ${subjects%% *}" ;;
		*) key="$key ${COMP_WORDS[at]}" ;;
		esac
	fi
	value=$(_busbench_value "$key $prev")
	if [ -n "$value" ]; then
		_busbench_reply "${value%% *}" "$cur" "${value#* }"
	elif [[ $cur == -* ]]; then
		_busbench_reply words "$cur" "$(_busbench_options "$key")"
	else
		value=$(_busbench_value "$key OPERAND")
		_busbench_reply "${value:-files}" "$cur"
	fi
}

complete -F _busbench NAMES
"""


def operand(program):
    return "profiles" if program.operands == "PROFILE" else "files"


def bash_values(program):
    yield f"{program.name} OPERAND", operand(program)
    for option in program.options:
        kind, words = schemas.kind(option)
        for word in schemas.words(option) if kind != "none" else ():
            yield f"{program.name} {word}", " ".join((kind, *words))


def bash(found):
    all_options = ((p.name, " ".join(word for o in p.options for word in schemas.words(o)[-1:])) for p in programs(found))
    commands = ((word, tool.command) for tool in found if tool.command for word in dict.fromkeys((tool.name, tool.command)))
    text = BASH.replace("COMMANDS", cases(grouped(commands)))
    text = text.replace("SUBJECTS", cases(grouped((t.command, " ".join(t.subjects())) for t in tools_with_subjects(found))))
    text = text.replace("OPTIONS", cases(grouped(all_options)))
    text = text.replace("VALUES", cases(grouped(pair for p in programs(found) for pair in bash_values(p))))
    text = text.replace("LIST_CLUSTERS", CLUSTERS).replace("LIST_PROFILES", PROFILES)
    text = text.replace("TOOLS", " ".join(tool.name for tool in found))
    return HEAD + text.replace("NAMES", " ".join(names(found)))


def names(found):
    return ["busbench"] + [tool.command for tool in found if tool.command]


# ---- zsh -------------------------------------------------------------------------------------

ZSH = """
_busbench_clusters() {
	compadd -- ${(f)"$(LIST_CLUSTERS)"}
	_files
}

_busbench_profiles() {
	compadd -- ${(f)"$(LIST_PROFILES)"}
	_files
}

_busbench_tool() {
	local -a specs
	local key=$1
	case $key in
SUBJECTS	esac
	case $key in
SPECS	esac
	_arguments -s -S $specs
}

_busbench() {
	local key=$service
	if [[ $key == busbench ]]; then
		if (( CURRENT == 2 )); then
			local -a tools
			tools=(
TOOLS			)
			_describe tool tools
			return
		fi
		shift words
		(( CURRENT-- ))
		case ${words[1]} in
COMMANDS		*)
			_files
			return
			;;
		esac
	fi
	_busbench_tool $key
}

_busbench "$@"
"""
ZSH_ACTIONS = {"files": "_files", "folders": "_files -/", "clusters": "_busbench_clusters", "profiles": "_busbench_profiles", "any": " "}


def zsh_text(text):
    return "".join("\\" + c if c in "[]:\\" else c for c in text)


def zsh_spec(option):
    """A word of _arguments, quoted for zsh."""
    kind, choices = schemas.kind(option)
    words = schemas.words(option)
    text = f"[{zsh_text(option['help'])}]"
    if kind != "none":
        action = {"words": f"({' '.join(choices)})", "list": f"_values -s , word {' '.join(choices)}"}.get(kind) or ZSH_ACTIONS[kind]
        text += f":{zsh_text(option['argument'])}:{action}"
    exclude = f"({' '.join(words)})" if len(words) > 1 else ""
    ends = ("+", "=") if kind != "none" else ("", "")
    return [shlex.quote(f"{exclude}{word}{ends[word.startswith('--')]}{text}") for word in words]


def zsh_specs(program):
    lines = [f"\t\t\t{spec}" for option in program.options for spec in zsh_spec(option)]
    lines.append(f"\t\t\t'*:{program.operands or 'file'}:{ZSH_ACTIONS[operand(program)]}'")
    return f"\t{shlex.quote(program.name)})\n\t\tspecs=(\n" + "\n".join(lines) + "\n\t\t)\n\t\t;;\n"


def zsh_subjects(tool):
    briefs = "".join(f"\t\t\t\t{shlex.quote(p.subject + ':' + zsh_text(p.brief))}\n" for p in tool.programs)
    return (f"\t{tool.command})\n\t\tif (( CURRENT == 2 )); then\n\t\t\tlocal -a subjects\n\t\t\tsubjects=(\n{briefs}\t\t\t)\n"
            "\t\t\t_describe subject subjects\n\t\t\treturn\n\t\tfi\n"
            '\t\tkey="$key ${words[2]}"\n\t\tshift words\n\t\t(( CURRENT-- ))\n\t\t;;\n')  # fmt: skip


def zsh(found):
    text = ZSH.replace("SUBJECTS", "".join(map(zsh_subjects, tools_with_subjects(found))))
    text = text.replace("SPECS", "".join(map(zsh_specs, programs(found))))
    text = text.replace("TOOLS", "".join(f"\t\t\t\t{shlex.quote(t.name + ':' + zsh_text(t.brief))}\n" for t in found))
    commands = (f"\t\t{' | '.join(dict.fromkeys((t.name, t.command)))}) key={t.command} ;;\n" for t in found if t.command)
    text = text.replace("COMMANDS", "".join(commands))
    text = text.replace("LIST_CLUSTERS", CLUSTERS).replace("LIST_PROFILES", PROFILES)
    return f"#compdef {' '.join(names(found))}\n" + HEAD + text


# ---- fish ------------------------------------------------------------------------------------

FISH = """
function __busbench_rest
	set -l words (commandline -opc)
	set -l command
	switch $words[2]
COMMANDS	end
	if test -n "$command"
		complete -C (string join ' ' -- $command (string escape -- $words[3..]) (commandline -ct))
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c busbench -f
complete -c busbench -n 'test (count (commandline -opc)) -ge 2' -a '(__busbench_rest)'
"""
FISH_ACTIONS = {
    "files": "-r -F",
    "folders": "-xa '(__fish_complete_directories)'",
    "clusters": f'-r -F -a "({CLUSTERS})"',
    "profiles": f'-F -a "({PROFILES})"',
    "any": "-x",
    "none": "",
}


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(head, option):
    kind, choices = schemas.kind(option)
    key = f" -s {option['key']}" if option["key"] else ""
    listed = " ".join(choices)
    action = {"words": f"-xa '{listed}'", "list": f"-xa '(__fish_complete_list , \"string split \\\\  -- {listed}\")'"}.get(kind) or FISH_ACTIONS[kind]
    return f"{head} -l {option['name']}{key} {action} -d {fish_quoted(option['help'])}\n"


def fish_program(tool, program):
    head = f"complete -c {tool.command}"
    if program.subject:
        head += f" -n '__fish_seen_subcommand_from {program.subject}'"
    operands = f"{head} {FISH_ACTIONS['profiles']}\n" if operand(program) == "profiles" else ""
    return operands + "".join(fish_option(head, option) for option in program.options)


def fish_tool(tool):
    text = HEAD
    if tool.subjects():
        none_yet = f"not __fish_seen_subcommand_from {' '.join(tool.subjects())}"
        for program in tool.programs:
            text += f"complete -c {tool.command} -n '{none_yet}' -fa {program.subject} -d {fish_quoted(program.brief)}\n"
    elif not tool.programs[0].operands:
        text += f"complete -c {tool.command} -f\n"
    return text + "".join(fish_program(tool, program) for program in tool.programs)


def fish(found):
    commands = "".join(f"\t\tcase {' '.join(dict.fromkeys((t.name, t.command)))}\n\t\t\tset command {t.command}\n" for t in found if t.command)
    first = "test (count (commandline -opc)) -eq 1"
    tools = "".join(f"complete -c busbench -n '{first}' -a {t.name} -d {fish_quoted(t.brief)}\n" for t in found)
    return HEAD + FISH.replace("COMMANDS", commands) + tools


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    build, folder = sys.argv[1:]
    found = schemas.tools(build)
    files = {"bash/busbench": bash(found), "zsh/_busbench": zsh(found), "fish/busbench.fish": fish(found)}
    files.update({f"fish/{tool.command}.fish": fish_tool(tool) for tool in found if tool.command})
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
