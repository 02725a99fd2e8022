//! The documents and the command line agree.

#[path = "../../../tests/shown_commands.rs"]
mod shown_commands;

#[test]
fn every_command_that_is_shown_could_be_typed() {
    shown_commands::could_be_typed("load", env!("CARGO_BIN_EXE_upshift-load"));
}

#[test]
fn every_file_of_statements_that_is_shown_is_right() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(root.join("reference/load-script.md")).expect("a page");
    let shown = page.split("```toml\n").skip(1);
    let shown = shown.filter_map(|rest| rest.split("```").next());
    let tutorial = std::fs::read_to_string(root.join("tutorial/shop.toml")).expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shown.toml");
    let mut count = 0;
    for text in shown.chain([tutorial.as_str()]) {
        std::fs::write(&file, text).expect("writes");
        let script = loadgen::script::Script::open(&file, None);
        let script = script.unwrap_or_else(|error| panic!("{error}"));
        assert!(script.remarks().is_empty(), "{:?}", script.remarks());
        count += 1;
    }
    assert!(count >= 2);
}
