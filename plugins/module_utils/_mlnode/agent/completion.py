# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode completion bash`: a script of bash (Programmable Completion), made from the parser."""

from __future__ import annotations

from . import arguments

#: Settings are read from the table, which has one line for each when printed to a pipe. They are compared in
#: the loop: `compgen -W` would expand special characters in a name.
_SCRIPT = """\
# bash completion for mlnode, as `mlnode completion bash` prints it
_mlnode() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' words='' at key
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
            --root) ((at++)) ;;
            -*) ;;
            *) command=${COMP_WORDS[at]}; break ;;
        esac
    done
    if [[ $previous == --root ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2> /dev/null || true
        return
    fi
    case $command in
@CASES@
    esac
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$current")
}
_mlnode_settings() {
    [[ $current != -* ]] || return 0
    while read -r key _ && [[ $key ]]; do
        [[ $key == PARAMETER || $key != "$current"* ]] || COMPREPLY+=("$key")
    done < <(mlnode status 2> /dev/null)
}
complete -F _mlnode mlnode
"""


def bash() -> str:
    """The script, without its last line end."""
    parser = arguments.parser()
    commands = arguments.commands(parser)
    cases = [_case("''", [*commands, "--help", "--version"])]
    for name, (subparser, _text) in commands.items():
        words = [word for option in arguments.options(subparser) for word in option.option_strings]
        asks = ""
        for argument in arguments.positionals(subparser):
            words += [str(choice) for choice in argument.choices or ()]
            if argument.dest == "key":
                asks = "_mlnode_settings; "
        cases.append(_case(name, [*words, "--help"], asks))
    return _SCRIPT.replace("@CASES@", "\n".join(cases)).rstrip("\n")


def _case(pattern: str, words: list[str], asks: str = "") -> str:
    return f"        {pattern}) {asks}words='{' '.join(words)}' ;;"
