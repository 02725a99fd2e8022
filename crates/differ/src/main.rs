//! Entry point.

fn main() -> std::process::ExitCode {
    differ::cli::main()
}
