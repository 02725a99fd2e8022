//! The documents and the command line agree.

#[path = "../../../tests/shown_commands.rs"]
mod shown_commands;

#[test]
fn every_command_that_is_shown_could_be_typed() {
    for verb in [
        "stack capture",
        "stack import",
        "stack export",
        "stack dump",
    ] {
        shown_commands::could_be_typed(verb, env!("CARGO_BIN_EXE_upshift-stack"));
    }
}
