"""Parts of every command line: flags by topic, help, errors of one line, Ctrl-C, progress."""
