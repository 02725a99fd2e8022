from upshift.cli.app import main

main()
