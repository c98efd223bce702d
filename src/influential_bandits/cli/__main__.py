"""``python -m influential_bandits.cli`` is the command line."""

from influential_bandits.cli import main

if __name__ == "__main__":
    main()
