"""Shell text: its commands, what is typed behind prompts, and where it breaks off."""

import subprocess
from pathlib import Path

import pytest
from bindery.tools.command_lines.shell import iterate_prompted, read_shell

ROOT = Path(__file__).resolve().parents[3]

COMMANDS = {
    "python a.py --x 1": [["python", "a.py", "--x", "1"]],
    "a \\\n  b": [["a", "b"]],
    "a 'b c' \"d $e\" f\\ g": [["a", "b c", "d $e", "f g"]],
    "A=1 B='x y' run --n": [["run", "--n"]],
    "a && b || c | d; e & f": [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]],
    "a $(b c) `d e`": [["b", "c"], ["d", "e"], ["a", "$(b c)", "`d e`"]],
    "if a; then b; elif c; then d; else e; fi": [["a"], ["b"], ["c"], ["d"], ["e"]],
    "for n in 1 2; do a $n; done": [["a", "$n"]],
    "while read -r x; do a; done < f": [["read", "-r", "x"], ["a"]],
    "case $x in a|b) c ;; *) d ;; esac": [["c"], ["d"]],
    "f() { a; }; f": [["a"], ["f"]],
    "(a; b) | c": [["a"], ["b"], ["c"]],
    "[[ a =~ ^(b|c)$ ]] && d": [["d"]],
    "a # b 'c": [["a"]],
    "x=(a b) && c": [[], ["c"]],
    "a <<< b; c": [["a"], ["c"]],
    "diff <(a) <(b c)": [["a"], ["b", "c"], ["diff", "", ""]],
    "((n = 1 << 2)) && a": [["a"]],
    "time -p { a; }; time b -p": [["a"], ["b", "-p"]],
    "coproc X { a; }; coproc b c": [["a"], ["b", "c"]],
    "&>log a": [["a"]],
}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands_are_read_word_by_word(text: str) -> None:
    """Each simple command of a text is found, in the order in which they end."""
    shell = read_shell(text)
    assert shell.fault is None
    found = [[word.text for word in command.words] for command in shell.commands]
    assert found == COMMANDS[text]


FAULTS = {
    "echo 'a": ("'", "the quote ' is never closed"),
    'echo "a': ('"', 'the quote " is never closed'),
    "a $(b": ("$(", "'$(' is never closed"),
    "a ${b": ("${", "'${' is never closed"),
    "a `b": ("`", "the ` is never closed"),
    "cat <<EOF\na": ("<<EOF", "the heredoc 'EOF' is never closed"),
    "cat <<EOF\na\n EOF": ("<<EOF", "the heredoc 'EOF' is never closed"),
    "if a; then b": ("if", "'if' is never closed"),
    "case a in b) c ;;": ("case", "'case' is never closed"),
    "a; done": ("done", "'done' cannot be here"),
    "a )": (")", "')' cannot be here"),
    "a && && b": ("&&", "'&&' cannot be here"),
    "a |": ("|", "nothing follows '|'"),
    "a >": (">", "nothing follows '>'"),
    "a ;; b": (";;", "';;' cannot be here"),
    "a (b)": ("(", "'(' cannot be here"),
    "if a; then # b\nfi": ("fi", "there is no command between 'then' and 'fi'"),
    "for x in a\n  b\ndone": ("b", "'b' cannot be here"),
    "[[ a": ("[[", "'[[' is never closed"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_have_their_place(text: str) -> None:
    """The first fault of a text is found, where it is and in plain words."""
    fault = read_shell(text).fault
    assert fault is not None
    assert (text[fault.start : fault.end], fault.message) == FAULTS[text]


@pytest.mark.needs("bash")
def test_bash_agrees() -> None:
    """What is a fault here is one to bash, and what is none here is none to bash."""

    def ask_bash(text: str) -> bool:
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        return done.returncode == 0 and not done.stderr

    backticks = {"a `b"}  # bash looks into these when it runs them
    assert [text for text in COMMANDS if not ask_bash(text)] == []
    assert {text for text in FAULTS if ask_bash(text)} - backticks == set()
    scripts = [path.read_text(encoding="utf-8") for path in ROOT.glob("build/bindery/**/*.sh")]
    assert scripts
    for script in scripts:
        assert (read_shell(script).fault is None) is ask_bash(script)


SESSION = """\
$ python a.py \\
    --x 1
it's the output
(venv) user@host:~$ cat <<EOF
b
EOF
$ echo 'never closed
$ ls
"""


def test_only_what_is_typed_behind_prompts_counts() -> None:
    """A transcript gives its commands, over as many lines as they take, and no output."""
    assert [typed for _, typed in iterate_prompted(SESSION)] == [
        "python a.py \\\n    --x 1",
        "cat <<EOF\nb\nEOF",
        "echo 'never closed",
        "ls",
    ]
    assert all(SESSION[at:].startswith(typed) for at, typed in iterate_prompted(SESSION))
    assert list(iterate_prompted("cost: 5$ a day\n")) == []
