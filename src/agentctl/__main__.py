"""`python -m agentctl` and the `agentctl` command."""

from agentctl.cli.main import main

if __name__ == "__main__":
    main()
