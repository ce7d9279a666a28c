"""Words that shells, templates, YAML, Slurm or text handling like to change; run-recipe gets each as it was typed."""

HOSTILE: tuple[bytes, ...] = tuple(
    word.encode() if isinstance(word, str) else word
    for word in (
        # Nothing, blanks, and what a shell splits at.
        *(
            "",
            " ",
            "a b",
            "  two  blanks  ",
            "\ttab\t",
            "\n",
            "line one\nline two",
            "ends with newline\n",
            "cr\rcrlf\r\n",
        ),
        # Quotes, and what a quoted word may not contain.
        *("it's", "'", "''", '"', '"double"', "'\"'\"'", '"$HOME"', "$'\\x41'", "\\", "ends with \\", "\\n", "'\\''"),
        # Expansions.
        *("$HOME", "${SLURM_JOB_ID}", "$SLURM_PROCID", "$(echo pwned)", "`echo pwned`", "$((1+1))", "$$", "$@", "${"),
        *("*", "?", "/*", "[a-z]*", "{a,b}", "~", "~root", "!!", "!history", "#comment", "a #b", "^a^b"),
        # Operators.
        *(
            "a;b",
            "a&",
            "a&&b",
            "a|b",
            "a>b",
            "<a",
            "(a)",
            "a\nexit 7",
            "a\n#SBATCH --hold",
            "EOF",
            "\nEOF\n",
            "|| exit 5",
        ),
        # Hydra's own grammar.
        *(
            "model.x=[1, 2, {a: 'b c'}]",
            "a={'b': \"c\"}",
            "dataset.path='a b'",
            "a=b=c",
            "=",
            "+a.b=c",
            "~a.b",
            "a=${b}",
        ),
        # Templates, formats, YAML, and Slurm's own patterns.
        *("{{ job_name }}", "{{", "{% raw %}", "{# no #}", "{}", "%j-%x-%%", "%s%n", "null", "true", "1e-5", "007"),
        *("- a: b", "? x", "!!python/none", "@file", "&anchor *alias", "a: b # c", "---", "--- !x"),
        # Paths that NeMo-Run replaces in text.
        *("/nemo_run", "/nemo_run/code/x:/nemo_run"),
        # Leading dashes.
        *("-", "-x", "--no-such-option=a b", "-1", "--a", "--"),
        # Behind `--`, options of the launcher are words as well.
        *("--nodes", "7", "--dry-run", "--help"),
        # Unicode: composed, apart, wide, what ends a line, a mark that is stripped.
        *(
            "é",
            "e\u0301",
            "日本語",
            "🦙",
            "a\u2028b",
            "a\u2029b",
            "a\u0085b",
            "\ufeffbom",
            "\u202egnp.exe",
            "a\u00a0b",
            "\u200b",
        ),
        # Bytes that are no text.
        *(b"\xff\xfe", b"\xc3", b"a\x80 b", b"\xed\xa0\x80", b"caf\xe9 $x"),
        # Control characters.
        *(b"\x01\x07\x08\x0b\x0c\x1b[31mred\x1b[0m", b"\x7f", b"\x1b]0;title\x07"),
        # Long.
        *("x" * 120_000, "'" * 20_000, "é " * 10_000),
    )
)
