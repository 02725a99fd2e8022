use super::*;

#[test]
fn a_statement_is_prepared_without_definitions_and_the_next_answer_has_its_place() {
    let (ours, mut theirs) = UnixStream::pair().expect("two ends");
    let mut peer = Peer::over(ours, PATIENCE).expect("a connection");
    peer.agreed = capability::USUAL | OPTIONAL_METADATA;
    // MySQL 9.7.4 with resultset_metadata=NONE: one parameter, two columns; only a parameter; a row.
    let end = |number| [5, 0, 0, number, 0xFE, 0, 0, 3, 0];
    let both = [
        b"\x0d\0\0\x01\0L\0\0\0\x02\0\x01\0\0\0\0\0".as_slice(),
        &end(2),
        &end(3),
    ];
    let parameter = [
        b"\x0d\0\0\x01\0M\0\0\0\0\0\x01\0\0\0\0\0".as_slice(),
        &end(2),
    ];
    let row = [
        b"\x02\0\0\x01\x03\0".as_slice(),
        &end(2),
        b"\x03\0\0\x03\xfb\xfb\xfb",
        &end(4),
    ];
    let answers = [both.concat(), parameter.concat(), row.concat()];
    theirs.write_all(&answers.concat()).expect("room");
    let requests = [
        What::Prepare(1, "SELECT c1, k0 FROM t WHERE k0 = ?".to_owned()),
        What::Prepare(2, "DO ?".to_owned()),
        What::Query("SELECT @n, @r, @seen".to_owned()),
    ];
    peer.send_ahead(&requests, usize::MAX).expect("room");
    let mut answer = Answer::default();
    for expected in answers {
        peer.receive_next(&mut answer).expect("an answer");
        assert_eq!(answer.bytes, expected);
    }
    assert_eq!(answer.rows, 1);
}
