import sys

try:
    from upshift.cli.app import main
except KeyboardInterrupt:
    sys.exit(130)

main()
