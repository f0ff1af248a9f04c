"""What every command line does: flags by topic, help, errors of one line, Ctrl-C, progress."""
