#!/usr/bin/env python3
# preflight: ok
"""A report of what $HOME holds."""
import os
import re

PRICE = re.compile(r"\$[0-9]+")
HELP = '''usage: report.py $TARGET
   with "$OPTIONS" and ${MORE}
'''


def main(target="$TARGET"):
    home = os.environ["HOME"]  # not $HOME
    print(f"{home}/$NAME costs {len(home):>10}$")
    print(f"{os.environ.get('HOME', '$HOME')!r:^{40}}")
    print('it\'s $FINE', "a \"$QUOTE\"", rb"$BYTES")


if __name__ == "__main__":
    main()
