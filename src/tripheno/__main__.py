"""``python -m tripheno``."""

from tripheno.cli.main import main

if __name__ == "__main__":
    main()
