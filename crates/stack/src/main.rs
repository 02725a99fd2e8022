//! Entry point.

fn main() -> std::process::ExitCode {
    stack::cli::main()
}
